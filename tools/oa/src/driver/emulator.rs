//! A scripted GPU behind [`crate::device::StreamDevice`]: plays i915 and xe with given content and
//! any errno. For tests and demonstrations; refuses to pass for hardware: what is shown with it is
//! the order of calls, the bytes of structures and the handling of errors, not what a kernel
//! accepts.
#![forbid(unsafe_code)]

use crate::device::StreamDevice;
use crate::uapi::{Call, request};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the next read of the stream gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// These bytes.
    Bytes(Vec<u8>),
    /// This errno.
    Errno(i32),
}

/// What the GPU answers.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// GETPARAM's answers; others are EINVAL.
    pub params: BTreeMap<u32, u32>,
    /// Answers to queries of either driver, by number.
    pub queries: BTreeMap<u64, Vec<u8>>,
    /// Requests that fail, with their errno.
    pub errors: BTreeMap<u32, i32>,
    /// The engines' clock; every read of it takes a tick.
    pub ticks: u64,
    /// Bits of that clock.
    pub tick_bits: u32,
    /// CLOCK_MONOTONIC_RAW that xe's clock query answers with.
    pub cpu_ns: u64,
    /// What the stream gives.
    pub reads: VecDeque<Read>,
    /// Values of xe's STATUS, one per call.
    pub statuses: VecDeque<u64>,
    /// Configurations loaded: UUID and lists of words, in order; numbers count from 2 (i915) or 1
    /// (xe).
    pub configs: Vec<(String, Vec<Vec<u8>>)>,
    /// Numbers of configurations that were removed.
    pub removed: Vec<u64>,
    /// Properties of the last stream opened.
    pub opened: Vec<(u64, u64)>,
    /// Requests in the order they came.
    pub calls: Vec<u32>,
}

/// A scripted GPU: clones share the script.
#[derive(Clone, Debug, Default)]
pub struct Emulator(Arc<Mutex<Script>>);

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn word(bytes: Option<&[u8]>, at: usize) -> u64 {
    let byte = |i: usize| bytes.and_then(|b| b.get(at + i)).copied().map_or(0, u64::from);
    (0..8).fold(0, |word, i| word | byte(i) << (8 * i))
}

impl Emulator {
    /// Plays a script.
    pub fn new(script: Script) -> Emulator {
        Emulator(Arc::new(Mutex::new(script)))
    }

    /// The script as it stands: to look at what happened, or to add to it.
    pub fn script(&self) -> MutexGuard<'_, Script> {
        // A test that failed while holding it must not hide its own message.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_tick(script: &mut Script) -> u64 {
        let bits = script.tick_bits.clamp(1, 64);
        script.ticks = script.ticks.wrapping_add(1);
        script.ticks & (u64::MAX >> (64 - bits))
    }

    fn i915_query(script: &Script, call: &mut Call) -> io::Result<i32> {
        let id = word(call.bytes(&[8]), 0);
        let room = word(call.bytes(&[8]), 8) as u32;
        let answer = script.queries.get(&id).cloned();
        // As the kernel does: a query it does not know is an errno in the length.
        let length =
            answer.as_ref().map_or(-libc::EINVAL, |a| i32::try_from(a.len()).unwrap_or(i32::MAX));
        call.answer(&[8], 8, &length.to_le_bytes());
        if let (Some(answer), true) = (answer, room > 0) {
            call.answer(&[8, 16], 0, &answer);
        }
        Ok(0)
    }

    fn xe_query(script: &mut Script, call: &mut Call) -> io::Result<i32> {
        let id = word(call.bytes(&[]), 8) as u32;
        let room = (word(call.bytes(&[]), 8) >> 32) as usize;
        if id == 6 {
            let tick = Self::next_tick(script);
            call.answer(&[16], 12, &script.tick_bits.to_le_bytes());
            call.answer(&[16], 16, &tick.to_le_bytes());
            call.answer(&[16], 24, &script.cpu_ns.to_le_bytes());
            call.answer(&[16], 32, &100u64.to_le_bytes());
            return Ok(0);
        }
        let answer = script.queries.get(&id.into()).cloned().ok_or_else(|| errno(libc::EINVAL))?;
        if room == 0 {
            call.answer(&[], 12, &(answer.len() as u32).to_le_bytes());
        } else if room == answer.len() {
            call.answer(&[16], 0, &answer);
        } else {
            return Err(errno(libc::EINVAL));
        }
        Ok(0)
    }

    fn add(
        script: &mut Script,
        uuid: Option<&[u8]>,
        lists: Vec<Vec<u8>>,
        first: usize,
    ) -> io::Result<i32> {
        let uuid = String::from_utf8_lossy(uuid.unwrap_or_default()).into_owned();
        if script.configs.iter().any(|(u, _)| *u == uuid) {
            return Err(errno(libc::EADDRINUSE));
        }
        script.configs.push((uuid, lists));
        Ok(i32::try_from(script.configs.len() - 1 + first).unwrap_or(i32::MAX))
    }
}

impl StreamDevice for Emulator {
    fn call(&self, call: &mut Call) -> io::Result<i32> {
        let mut script = self.script();
        let number = call.request();
        script.calls.push(number);
        if let Some(code) = script.errors.get(&number) {
            return Err(errno(*code));
        }
        match number {
            request::I915_GETPARAM => {
                let param = word(call.bytes(&[]), 0) as u32;
                let value = *script.params.get(&param).ok_or_else(|| errno(libc::EINVAL))?;
                call.answer(&[8], 0, &value.to_le_bytes());
                Ok(0)
            }
            request::I915_REG_READ => {
                // The one register the kernel allows here.
                if word(call.bytes(&[]), 0) != 0x2359 {
                    return Err(errno(libc::EINVAL));
                }
                let tick = Self::next_tick(&mut script);
                call.answer(&[], 8, &tick.to_le_bytes());
                Ok(0)
            }
            request::I915_QUERY => Self::i915_query(&script, call),
            request::I915_PERF_ADD_CONFIG => {
                let lists =
                    [48, 56, 64].map(|at| call.bytes(&[at]).unwrap_or_default().to_vec()).to_vec();
                let uuid = call.bytes(&[]).and_then(|b| b.get(..36));
                Self::add(&mut script, uuid, lists, 2)
            }
            request::I915_PERF_REMOVE_CONFIG => {
                let id = word(call.bytes(&[]), 0);
                script.removed.push(id);
                Ok(0)
            }
            request::XE_OBSERVATION => match word(call.bytes(&[]), 16) {
                1 => {
                    let lists = vec![call.bytes(&[24, 48]).unwrap_or_default().to_vec()];
                    let uuid = call.bytes(&[24]).and_then(|b| b.get(8..44));
                    Self::add(&mut script, uuid, lists, 1)
                }
                2 => {
                    let id = word(call.bytes(&[24]), 0);
                    script.removed.push(id);
                    Ok(0)
                }
                _ => Err(errno(libc::EINVAL)),
            },
            request::XE_DEVICE_QUERY => Self::xe_query(&mut script, call),
            request::XE_STREAM_STATUS => {
                let status = script.statuses.pop_front().unwrap_or(0);
                call.answer(&[], 8, &status.to_le_bytes());
                Ok(0)
            }
            _ => Err(errno(libc::ENOTTY)),
        }
    }

    fn open_stream(&self, call: &mut Call) -> io::Result<Box<dyn StreamDevice>> {
        let mut script = self.script();
        let number = call.request();
        script.calls.push(number);
        if let Some(code) = script.errors.get(&number) {
            return Err(errno(*code));
        }
        script.opened.clear();
        if number == request::I915_PERF_OPEN {
            for pair in call.bytes(&[8]).unwrap_or_default().chunks_exact(16) {
                script.opened.push((word(Some(pair), 0), word(Some(pair), 8)));
            }
        } else {
            let mut path = vec![24];
            while let Some(property) = call.bytes(&path) {
                script
                    .opened
                    .push((word(Some(property), 16) & 0xffff_ffff, word(Some(property), 24)));
                path.push(0);
            }
        }
        Ok(Box::new(self.clone()))
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut script = self.script();
        match script.reads.pop_front() {
            None => Err(errno(libc::EAGAIN)),
            Some(Read::Errno(code)) => Err(errno(code)),
            Some(Read::Bytes(bytes)) => {
                let n = bytes.len().min(buf.len());
                if let (Some(to), Some(from)) = (buf.get_mut(..n), bytes.get(..n)) {
                    to.copy_from_slice(from);
                }
                if n < bytes.len() {
                    script
                        .reads
                        .push_front(Read::Bytes(bytes.get(n..).unwrap_or_default().to_vec()));
                }
                Ok(n)
            }
        }
    }
}
