//! What kind of interface a source reads, by its name. Owns the beginnings of the names that
//! sources of this project have, so that nobody else compares text. Refuses to know what they
//! measure.
#![forbid(unsafe_code)]

/// Kind of a source. Traces hold the source's name; [`SourceKind::of_source`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The processor's energy counters: powercap, perf, MSRs, or handed over by a helper.
    Rapl,
    /// A kernel driver's sensors of a GPU.
    Hwmon,
    /// NVML's ring of stamped power samples.
    NvmlRing,
    /// NVML's energy counter.
    NvmlEnergy,
    /// NVML's hardware counters (GPM).
    NvmlGpm,
    /// Anything else that NVML gives: instant power, clocks, temperature.
    Nvml,
    /// A file of recorded readings.
    Replay,
    /// An external power meter.
    Meter,
    /// None of these.
    Other,
}

impl SourceKind {
    /// The kind of a source of this name.
    pub fn of_source(source: &str) -> Self {
        let mut parts = source.split(':');
        match (parts.next().unwrap_or_default(), parts.next()) {
            ("powercap" | "perf" | "msr" | "helper", None) => Self::Rapl,
            ("hwmon" | "drm", _) => Self::Hwmon,
            ("nvml", Some("ring")) => Self::NvmlRing,
            ("nvml", Some("energy")) => Self::NvmlEnergy,
            ("nvml", Some("gpm")) => Self::NvmlGpm,
            ("nvml", _) => Self::Nvml,
            ("replay", None) => Self::Replay,
            (crate::meter::SOURCE, None) => Self::Meter,
            _ => Self::Other,
        }
    }

    /// Whether NVIDIA's management library gives it.
    pub const fn is_nvml(self) -> bool {
        matches!(self, Self::NvmlRing | Self::NvmlEnergy | Self::NvmlGpm | Self::Nvml)
    }

    /// Whether the driver keeps readings, so that they come some time after they were taken.
    pub const fn is_buffered(self) -> bool {
        matches!(self, Self::NvmlRing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_kinds() {
        for (name, kind) in [
            ("powercap", SourceKind::Rapl),
            ("helper", SourceKind::Rapl),
            ("hwmon:xe:0000:03:00.0", SourceKind::Hwmon),
            ("drm:0000:00:02.0", SourceKind::Hwmon),
            ("nvml:ring:0", SourceKind::NvmlRing),
            ("nvml:energy:3", SourceKind::NvmlEnergy),
            ("nvml:gpm:0", SourceKind::NvmlGpm),
            ("nvml:instant:0", SourceKind::Nvml),
            ("nvml", SourceKind::Nvml),
            ("replay", SourceKind::Replay),
            ("meter", SourceKind::Meter),
            ("perfect", SourceKind::Other),
            ("", SourceKind::Other),
        ] {
            assert_eq!(SourceKind::of_source(name), kind, "{name}");
        }
        assert!(SourceKind::NvmlRing.is_buffered() && !SourceKind::NvmlEnergy.is_buffered());
        assert!(SourceKind::NvmlGpm.is_nvml() && !SourceKind::Hwmon.is_nvml());
    }
}
