//! The device's arithmetic peak: units x lanes x operations a cycle x clock (Duarte 2018, eq. 4.1).
//! Owns the little that device queries leave open; refuses to guess: where the units are not known
//! there is no peak.

use crate::cl::{DeviceFacts, DeviceKind};
use crate::job::Scalar;

/// Operations that all units together finish in one cycle, with their source.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// Floating-point operations a cycle, an FMA counted as two.
    pub operations_per_cycle: f64,
    /// How it was formed.
    pub source: String,
}

/// FP32 and FP64 FMA lanes of a multiprocessor by compute capability (CUDA C++ Programming Guide,
/// table "Throughput of Native Arithmetic Instructions").
const NVIDIA: [((u32, u32), u32, u32); 12] = [
    ((6, 0), 64, 32),
    ((6, 1), 128, 4),
    ((7, 0), 64, 32),
    ((7, 2), 64, 32),
    ((7, 5), 64, 2),
    ((8, 0), 64, 32),
    ((8, 6), 128, 2),
    ((8, 7), 128, 2),
    ((8, 9), 128, 2),
    ((9, 0), 128, 64),
    ((10, 0), 128, 64),
    ((12, 0), 128, 2),
];

/// Parts of the names of Intel's GPUs whose EUs have 16 lanes: Xe-HPC (Ponte Vecchio), Xe2
/// (Battlemage, Lunar Lake).
const WIDE: [&str; 6] = ["Data Center GPU Max", "B570", "B580", "Pro B", "130V", "140V"];

/// The peak of a type; nothing where the device does not say what it is made of.
pub fn peak_of(device: &DeviceFacts, scalar: Scalar) -> Option<Peak> {
    if device.kind != DeviceKind::Gpu {
        return None;
    }
    let units = device.compute_units;
    if let Some(capability) = device.nv_capability {
        let &(_, single, double) = NVIDIA.iter().find(|row| row.0 == capability)?;
        let lanes = match scalar {
            Scalar::Float => single,
            Scalar::Double => double,
            _ => return None,
        };
        let source = format!(
            "{units} multiprocessors x {lanes} FMA lanes x 2 (compute capability {}.{})",
            capability.0, capability.1
        );
        return Some(Peak { operations_per_cycle: f64::from(units * lanes * 2), source });
    }
    let eus = device.intel_units?;
    let per_eu = match scalar {
        // Xe-HPC and Xe2: 16 lanes in an EU. Of their doubles nothing is stated here.
        Scalar::Float if WIDE.iter().any(|name| device.name.contains(name)) => 32.0,
        Scalar::Double if WIDE.iter().any(|name| device.name.contains(name)) => return None,
        // Intel Gen9 to Gen12: two FPUs of four lanes in an EU; doubles in one of them at half
        // width.
        Scalar::Float => 16.0,
        Scalar::Double => 4.0,
        _ => return None,
    };
    Some(Peak {
        operations_per_cycle: f64::from(eus) * per_eu,
        source: format!("{eus} EUs x {per_eu} operations a cycle"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_intel_have_eight_lanes_or_sixteen() {
        let of = |name: &str, scalar| {
            let device = DeviceFacts {
                name: name.to_owned(),
                kind: DeviceKind::Gpu,
                intel_units: Some(24),
                ..DeviceFacts::default()
            };
            super::peak_of(&device, scalar).map(|peak| peak.operations_per_cycle)
        };
        // Duarte 2018, section 4.2: 24 EUs at 1.05 GHz are 403.2 GFLOP/s.
        assert_eq!(of("Intel(R) UHD Graphics 630", Scalar::Float), Some(384.0));
        assert_eq!(of("Intel(R) UHD Graphics 630", Scalar::Double), Some(96.0));
        for wide in ["Intel(R) Data Center GPU Max 1550", "Intel(R) Arc(TM) 140V GPU"] {
            assert_eq!(of(wide, Scalar::Float), Some(768.0), "{wide}");
            assert_eq!(of(wide, Scalar::Double), None, "{wide}");
        }
        let processor = DeviceFacts { kind: DeviceKind::Cpu, ..DeviceFacts::default() };
        assert!(super::peak_of(&processor, Scalar::Float).is_none());
    }
}
