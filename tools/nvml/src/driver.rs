//! The real NVML, opened at run time. Owns every unsafe line of this crate: the library's loading,
//! and the calls through its function pointers. Refuses to call a function the loaded library does
//! not have.

use crate::api::{
    Api, ClockDomain, DeviceInfo, Field, GpmSample, Index, PowerSample, Scope, Utilisation,
};
use crate::error::{NvmlError, code};
use clscope_trace::ids::PciAddress;
use nvml_wrapper_sys::bindings as sys;
use std::ffi::{CStr, c_char, c_uint};

/// Names tried when the caller names no library: the driver's own, then where containers and WSL
/// put it.
const NAMES: [&str; 5] = [
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];

/// The loaded and initialised library. Shut down when dropped.
pub struct Driver {
    lib: sys::NvmlLib,
}

/// Calls a function of the library if it is there, and turns its code into a result.
macro_rules! call {
    ($self:ident . $name:ident ( $($arg:expr),* )) => {
        match &$self.lib.$name {
            // SAFETY: the symbol was found in a library that declares this signature (nvml.h,
            // stable ABI), which stays loaded while `self.lib` lives. Each call site states why its
            // arguments are valid.
            Ok(function) => $self.check(stringify!($name), unsafe { function($($arg),*) }),
            Err(_) => Err(NvmlError::NoFunction { call: stringify!($name) }),
        }
    };
}

/// A fixed buffer that NVML wrote a C string to, as text.
fn text(buf: &[c_char]) -> String {
    let bytes: Vec<u8> = buf.iter().map(|c| c.to_ne_bytes()[0]).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A value union read as the type its tag names; negative numbers and unknown tags are refused.
fn number(
    call: &'static str,
    kind: sys::nvmlValueType_t,
    value: sys::nvmlValue_t,
) -> Result<u64, NvmlError> {
    let bad = |what: String| Err(NvmlError::Malformed { call, what });
    // SAFETY: every member of the union is a plain number for which any bit pattern is valid, and
    // the union was wholly initialised (zeroed) before NVML wrote the member that the tag names.
    let signed = unsafe {
        match kind {
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
                return Ok(u64::from(value.uiVal));
            }
            #[allow(clippy::useless_conversion)] // c_ulong is 32 bits on some targets
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => {
                return Ok(u64::from(value.ulVal));
            }
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => return Ok(value.ullVal),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => {
                return Ok(u64::from(value.usVal));
            }
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => i64::from(value.siVal),
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => value.sllVal,
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE => {
                let x = value.dVal;
                return if x.is_finite() && (0.0..1e15).contains(&x) {
                    Ok(x as u64)
                } else {
                    bad(format!("value {x}"))
                };
            }
            other => return bad(format!("value of unknown type {other}")),
        }
    };
    u64::try_from(signed).or_else(|_| bad(format!("negative value {signed}")))
}

/// As nvmlGpmMetricsGet_t, with room behind it: newer drivers know more metrics than any header.
#[repr(C)]
struct RoomyMetrics {
    head: sys::nvmlGpmMetricsGet_t,
    room: [sys::nvmlGpmMetric_t; 300],
}

impl Driver {
    /// Loads and initialises NVML: `path` if given, else the driver's library where it usually is.
    ///
    /// # Errors
    /// [`NvmlError::Absent`] where it cannot be loaded, [`NvmlError::Call`] where it refuses to
    /// start.
    pub fn load(path: Option<&str>) -> Result<Driver, NvmlError> {
        let names: Vec<&str> = path.map_or_else(|| NAMES.to_vec(), |path| vec![path]);
        let mut reason = String::new();
        for name in &names {
            // SAFETY: opening a library runs its initialisers. The names are the driver's own
            // library, or one the user named; NVML's initialisers set up its own state only.
            match unsafe { sys::NvmlLib::new(name) } {
                Ok(lib) => {
                    let driver = Driver { lib };
                    // No arguments.
                    return match call!(driver.nvmlInit_v2()) {
                        Ok(()) => Ok(driver),
                        Err(error) => {
                            // Not initialised: nothing to shut down.
                            std::mem::forget(driver);
                            Err(error)
                        }
                    };
                }
                Err(error) => reason = error.to_string(),
            }
        }
        Err(NvmlError::Absent { tried: names.into_iter().map(str::to_owned).collect(), reason })
    }

    fn check(&self, name: &'static str, result: sys::nvmlReturn_t) -> Result<(), NvmlError> {
        if result == sys::nvmlReturn_enum_NVML_SUCCESS {
            return Ok(());
        }
        let words = match &self.lib.nvmlErrorString {
            Ok(function) => {
                // SAFETY: takes any number and returns a pointer to a constant C string of the
                // library, or null, which is checked; the library stays loaded while `self.lib`
                // lives.
                let words = unsafe { function(result) };
                if words.is_null() {
                    String::new()
                } else {
                    // SAFETY: not null, and a constant C string as said above.
                    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
                }
            }
            Err(_) => String::new(),
        };
        Err(NvmlError::Call { call: name, code: result, words })
    }

    /// NVML keeps handles for ever; looking one up is cheap and survives a device's return after
    /// reset.
    fn handle(&self, device: Index) -> Result<sys::nvmlDevice_t, NvmlError> {
        let mut handle: sys::nvmlDevice_t = std::ptr::null_mut();
        // `handle` is writable and of the right type.
        call!(self.nvmlDeviceGetHandleByIndex_v2(device.0, &mut handle))?;
        Ok(handle)
    }

    fn info(&self, device: Index) -> Result<DeviceInfo, NvmlError> {
        let handle = self.handle(device)?;
        let mut name: [c_char; 96] = [0; 96];
        // The buffer is as long as said.
        call!(self.nvmlDeviceGetName(handle, name.as_mut_ptr(), name.len() as c_uint))?;
        let mut uuid: [c_char; 96] = [0; 96];
        // The buffer is as long as said.
        call!(self.nvmlDeviceGetUUID(handle, uuid.as_mut_ptr(), uuid.len() as c_uint))?;
        // SAFETY: plain data; all-zero is a valid value.
        let mut pci: sys::nvmlPciInfo_t = unsafe { std::mem::zeroed() };
        // `pci` is writable and of the type this version of the call takes.
        call!(self.nvmlDeviceGetPciInfo_v3(handle, &mut pci))?;
        // GPUs are function 0.
        let (domain, bus, slot) = (pci.domain, pci.bus, pci.device);
        let pci = PciAddress { domain, bus, device: slot, function: 0 }.to_string();
        Ok(DeviceInfo { index: device, name: text(&name), uuid: text(&uuid), pci })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Matches the one successful nvmlInit_v2; a failure here leaves nothing to be done.
        let _ = call!(self.nvmlShutdown());
    }
}

impl Api for Driver {
    fn devices(&self) -> Result<Vec<DeviceInfo>, NvmlError> {
        let mut count: c_uint = 0;
        // `count` is writable.
        call!(self.nvmlDeviceGetCount_v2(&mut count))?;
        (0..count).map(|i| self.info(Index(i))).collect()
    }

    fn power_samples(&self, device: Index, after_us: u64) -> Result<Vec<PowerSample>, NvmlError> {
        const CALL: &str = "nvmlDeviceGetSamples";
        let handle = self.handle(device)?;
        // The ring holds 119 entries where it was seen; four times as many leave room for other
        // drivers, and a driver with more says so.
        let mut capacity = 480usize;
        loop {
            // SAFETY: plain data (a number and a union of numbers); all-zero is a valid value.
            let empty: sys::nvmlSample_t = unsafe { std::mem::zeroed() };
            let mut samples = vec![empty; capacity];
            let mut count = capacity as c_uint;
            let mut kind: sys::nvmlValueType_t = 0;
            let sampling = sys::nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES;
            // `samples` holds `count` writable entries; the other two are writable numbers.
            let result = call!(self.nvmlDeviceGetSamples(
                handle,
                sampling,
                after_us,
                &mut kind,
                &mut count,
                samples.as_mut_ptr()
            ));
            match result {
                Ok(()) => {}
                // Nothing newer than asked for.
                Err(NvmlError::Call { code: code::NOT_FOUND | code::NO_DATA, .. }) => {
                    return Ok(Vec::new());
                }
                Err(NvmlError::Call { code: code::INSUFFICIENT_SIZE, .. })
                    if capacity < 1 << 16 =>
                {
                    capacity *= 4;
                    continue;
                }
                Err(error) => return Err(error),
            }
            samples.truncate(count as usize);
            return samples
                .into_iter()
                .map(|s| {
                    let milliwatts = number(CALL, kind, s.sampleValue)?;
                    let milliwatts = u32::try_from(milliwatts).map_err(|_| {
                        NvmlError::Malformed { call: CALL, what: format!("{milliwatts} mW") }
                    })?;
                    Ok(PowerSample { stamp_us: s.timeStamp, milliwatts })
                })
                .collect();
        }
    }

    fn total_energy_mj(&self, device: Index) -> Result<u64, NvmlError> {
        let handle = self.handle(device)?;
        let mut energy = 0;
        // `energy` is writable.
        call!(self.nvmlDeviceGetTotalEnergyConsumption(handle, &mut energy))?;
        Ok(energy)
    }

    fn field(&self, device: Index, field: Field, scope: Scope) -> Result<u64, NvmlError> {
        const CALL: &str = "nvmlDeviceGetFieldValues";
        let handle = self.handle(device)?;
        // SAFETY: plain data; all-zero is a valid value.
        let mut value: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        value.fieldId = field.id();
        value.scopeId = scope.id();
        // One writable entry, as said.
        call!(self.nvmlDeviceGetFieldValues(handle, 1, &mut value))?;
        self.check(CALL, value.nvmlReturn)?;
        number(CALL, value.valueType, value.value)
    }

    fn clock_mhz(&self, device: Index, clock: ClockDomain) -> Result<u32, NvmlError> {
        let handle = self.handle(device)?;
        let kind = match clock {
            ClockDomain::Sm => sys::nvmlClockType_enum_NVML_CLOCK_SM,
            ClockDomain::Memory => sys::nvmlClockType_enum_NVML_CLOCK_MEM,
        };
        let mut mhz: c_uint = 0;
        // `mhz` is writable.
        call!(self.nvmlDeviceGetClockInfo(handle, kind, &mut mhz))?;
        Ok(mhz)
    }

    fn temperature_c(&self, device: Index) -> Result<u32, NvmlError> {
        let handle = self.handle(device)?;
        let mut celsius: c_uint = 0;
        let sensor = sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
        // `celsius` is writable.
        call!(self.nvmlDeviceGetTemperature(handle, sensor, &mut celsius))?;
        Ok(celsius)
    }

    fn clock_reasons(&self, device: Index) -> Result<u64, NvmlError> {
        let handle = self.handle(device)?;
        let mut reasons = 0;
        // `reasons` is writable. Drivers before 535 have it under its older name only.
        match call!(self.nvmlDeviceGetCurrentClocksEventReasons(handle, &mut reasons)) {
            Err(NvmlError::NoFunction { .. }) => {
                call!(self.nvmlDeviceGetCurrentClocksThrottleReasons(handle, &mut reasons))?;
            }
            other => other?,
        }
        Ok(reasons)
    }

    fn power_limit_mw(&self, device: Index) -> Result<u32, NvmlError> {
        let handle = self.handle(device)?;
        let mut limit: c_uint = 0;
        // `limit` is writable.
        call!(self.nvmlDeviceGetEnforcedPowerLimit(handle, &mut limit))?;
        Ok(limit)
    }

    fn utilisation(&self, device: Index) -> Result<Utilisation, NvmlError> {
        let handle = self.handle(device)?;
        let mut rates = sys::nvmlUtilization_t { gpu: 0, memory: 0 };
        // `rates` is writable and of the right type.
        call!(self.nvmlDeviceGetUtilizationRates(handle, &mut rates))?;
        Ok(Utilisation { gpu: rates.gpu, memory: rates.memory })
    }

    fn gpm_supported(&self, device: Index) -> Result<bool, NvmlError> {
        let handle = self.handle(device)?;
        let mut support =
            sys::nvmlGpmSupport_t { version: sys::NVML_GPM_SUPPORT_VERSION, isSupportedDevice: 0 };
        // `support` is writable and names its version.
        call!(self.nvmlGpmQueryDeviceSupport(handle, &mut support))?;
        Ok(support.isSupportedDevice != 0)
    }

    fn gpm_alloc(&self) -> Result<GpmSample, NvmlError> {
        let mut sample: sys::nvmlGpmSample_t = std::ptr::null_mut();
        // `sample` is writable.
        call!(self.nvmlGpmSampleAlloc(&mut sample))?;
        Ok(GpmSample(sample.expose_provenance()))
    }

    fn gpm_free(&self, sample: GpmSample) {
        // The buffer came from gpm_alloc, and `sample`, which cannot be copied, ends here.
        let _ = call!(self.nvmlGpmSampleFree(std::ptr::with_exposed_provenance_mut(sample.0)));
    }

    fn gpm_get(&self, device: Index, sample: &mut GpmSample) -> Result<(), NvmlError> {
        let handle = self.handle(device)?;
        // The buffer came from gpm_alloc and is ours alone while `sample` is borrowed mutably.
        call!(self.nvmlGpmSampleGet(handle, std::ptr::with_exposed_provenance_mut(sample.0)))
    }

    fn gpm_metrics(
        &self,
        from: &GpmSample,
        to: &GpmSample,
        ids: &[u32],
    ) -> Result<Vec<Option<f64>>, NvmlError> {
        // SAFETY: plain data (numbers and pointers NVML fills or leaves); all-zero is a valid
        // value.
        let mut get: Box<RoomyMetrics> = Box::new(unsafe { std::mem::zeroed() });
        let ids = ids.get(..ids.len().min(get.head.metrics.len())).unwrap_or(ids);
        get.head.version = sys::NVML_GPM_METRICS_GET_VERSION;
        get.head.numMetrics = ids.len() as c_uint;
        get.head.sample1 = std::ptr::with_exposed_provenance_mut(from.0);
        get.head.sample2 = std::ptr::with_exposed_provenance_mut(to.0);
        for (slot, id) in get.head.metrics.iter_mut().zip(ids) {
            slot.metricId = *id;
        }
        // The structure begins with the declared one and has room behind it; both samples are live
        // buffers of gpm_alloc, borrowed for the call.
        call!(self.nvmlGpmMetricsGet((&raw mut *get).cast()))?;
        let metrics = get.head.metrics.iter().take(ids.len());
        Ok(metrics
            .map(|m| (m.nvmlReturn == sys::nvmlReturn_enum_NVML_SUCCESS).then_some(m.value))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_library_is_a_value() {
        let error = Driver::load(Some("/nonexistent/libnvidia-ml.so.1")).err().unwrap();
        match &error {
            NvmlError::Absent { tried, reason } => {
                assert_eq!(tried, &["/nonexistent/libnvidia-ml.so.1"]);
                assert!(!reason.is_empty());
            }
            other => panic!("{other:?}"),
        }
        assert!(error.is_fatal() && error.remedy().is_some());
    }

    #[test]
    fn a_library_without_the_functions_is_no_nvml() {
        // Any library that is surely there: every call must end as a value.
        let error = Driver::load(Some("libc.so.6")).err().unwrap();
        assert_eq!(error, NvmlError::NoFunction { call: "nvmlInit_v2" });
    }

    #[test]
    fn tagged_values_are_read_by_their_tag() {
        // SAFETY: plain data; all-zero is a valid value.
        let mut value: sys::nvmlValue_t = unsafe { std::mem::zeroed() };
        value.uiVal = 240_123;
        assert_eq!(number("x", 1, value), Ok(240_123));
        value.ullVal = 1 << 40;
        assert_eq!(number("x", 3, value), Ok(1 << 40));
        value.dVal = 12.7;
        assert_eq!(number("x", 0, value), Ok(12));
        value.dVal = f64::NAN;
        assert!(number("x", 0, value).is_err());
        value.sllVal = -5;
        assert!(number("x", 4, value).is_err());
        assert!(number("x", 99, value).is_err());
    }

    #[test]
    fn strings_end_at_their_zero() {
        let buf: Vec<c_char> = b"GPU-1\0rest".iter().map(|b| *b as c_char).collect();
        assert_eq!(text(&buf), "GPU-1");
        assert_eq!(text(&buf[..3]), "GPU");
    }
}
