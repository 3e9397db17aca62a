//! Owns which track an event is drawn on, and the ids of tracks, processes and GPUs. Refuses to
//! write.

use super::Tracks;
use crate::lanes::Lanes;
use crate::layout;
use clscope_analysis::Trace;
use clscope_analysis::event::Command;
use clscope_analysis::time::Span;
use clscope_profile::energy::activity::{self, PhysicalDevice};
use std::collections::HashMap;

/// Where a device command is drawn.
pub struct Place {
    /// Its device, as an index into [`TrackTree::devices`].
    pub gpu: usize,
    /// Name of its track on that device.
    pub track: String,
}

/// All tracks so far.
pub struct TrackTree {
    tracks: Tracks,
    /// Physical devices.
    pub devices: Vec<PhysicalDevice>,
    device_of: HashMap<(u32, u32), usize>,
    /// Processes that use each device.
    users: Vec<usize>,
    pids: Vec<u32>,
    threads: HashMap<(u32, u32), u64>,
    children: HashMap<(u32, String), u64>,
    lanes: HashMap<(usize, String), Lanes>,
    next: u64,
}

impl TrackTree {
    /// Of a trace.
    pub fn new(trace: &Trace<'_>, tracks: Tracks) -> Self {
        let (mut devices, mut device_of) = activity::devices(trace);
        if devices.is_empty() {
            // Definitions may be lost: commands still need a device.
            devices.push(PhysicalDevice::named("device", "", activity::Kind::Other));
        }
        device_of.retain(|_, at| *at < devices.len());
        let users = devices
            .iter()
            .map(|d| {
                let mut of: Vec<u32> = d.members.iter().map(|(p, _)| p.0).collect();
                of.dedup();
                of.len()
            })
            .collect();
        let pids = layout::process_ids(trace, true);
        let next = pids.len() as u64 + 1;
        Self {
            tracks,
            devices,
            device_of,
            users,
            pids,
            threads: HashMap::new(),
            children: HashMap::new(),
            lanes: HashMap::new(),
            next,
        }
    }

    /// Number of a device among those of its host.
    pub fn gpu(&self, device: usize) -> u64 {
        let Some(host) = self.devices.get(device).map(|d| d.host) else { return 0 };
        self.devices[..device].iter().filter(|d| d.host == host).count() as u64
    }

    /// A number for a track that no other has.
    pub fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Id and track of a process.
    pub fn process(&self, process: u32) -> (u32, u64) {
        (self.pids.get(process as usize).copied().unwrap_or(0), u64::from(process) + 1)
    }

    /// Track of a host thread, and whether it is new.
    pub fn thread(&mut self, process: u32, thread: u32) -> (u64, bool) {
        if let Some(uuid) = self.threads.get(&(process, thread)) {
            return (*uuid, false);
        }
        let uuid = self.unique();
        self.threads.insert((process, thread), uuid);
        (uuid, true)
    }

    /// Track of that name below a process, and whether it is new.
    pub fn child(&mut self, process: u32, name: &str) -> (u64, bool) {
        let key = (process, name.to_owned());
        if let Some(uuid) = self.children.get(&key) {
            return (*uuid, false);
        }
        let uuid = self.unique();
        self.children.insert(key, uuid);
        (uuid, true)
    }

    /// Where a command of that name is drawn: on the first lane of its track that is free over its
    /// span, since viewers take overlap for nesting.
    pub fn place(
        &mut self,
        trace: &Trace<'_>,
        command: &Command<'_>,
        name: &str,
        span: Span,
    ) -> Place {
        let process = command.process.0;
        let queue = command.enqueued.record.queue;
        let definitions = &trace.process(command.process).definitions;
        let device = definitions.clock_device(queue).unwrap_or(0);
        let gpu = self.device_of.get(&(process, device)).copied().unwrap_or(0);
        let mut track = match self.tracks {
            Tracks::Queue => definitions.queue_name(queue),
            Tracks::Device => "commands".to_owned(),
            Tracks::Kernel => name.to_owned(),
        };
        if self.tracks == Tracks::Queue {
            if definitions.queues.get(&queue).is_some_and(|q| q.is_out_of_order()) {
                track.push_str(", out of order");
            }
            if self.users.get(gpu).is_some_and(|n| *n > 1) {
                track = format!("{track} of {}", layout::process_name(trace, process));
            }
        }
        let key = (gpu, track);
        let lane = match self.lanes.get_mut(&key) {
            Some(lanes) => lanes.place(span),
            None => self.lanes.entry(key.clone()).or_default().place(span),
        };
        let (gpu, mut track) = key;
        if lane > 0 {
            track.push_str(&format!(" lane {}", lane + 1));
        }
        Place { gpu, track }
    }
}
