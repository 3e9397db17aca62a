//! The NVML calls this crate makes, as a trait: what the logic above needs and no more, so that it
//! can be driven by a script. Owns the vocabulary; makes no call itself.
#![forbid(unsafe_code)]

use crate::error::NvmlError;

/// A device, by NVML's index (not CUDA's, not OpenCL's).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u32);

/// Who a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// NVML's index.
    pub index: Index,
    /// Its name.
    pub name: String,
    /// `GPU-xxxxxxxx-...`.
    pub uuid: String,
    /// `dddd:bb:dd.f`, lower case, as sysfs and OpenCL's queries give it.
    pub pci: String,
}

/// One entry of the driver's ring of power samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerSample {
    /// CLOCK_REALTIME, microseconds.
    pub stamp_us: u64,
    /// Milliwatts.
    pub milliwatts: u32,
}

/// Fields of nvmlDeviceGetFieldValues this crate reads (nvml.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// NVML_FI_DEV_POWER_AVERAGE, mW, 1 s average on Ampere and later.
    PowerAverage,
    /// NVML_FI_DEV_POWER_INSTANT, mW.
    PowerInstant,
}

impl Field {
    /// The field's number.
    pub fn id(self) -> u32 {
        match self {
            Field::PowerAverage => 185,
            Field::PowerInstant => 186,
        }
    }
}

/// Which part of the board a power field covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The GPU's board power.
    Gpu,
    /// The module (superchips).
    Module,
    /// The memory.
    Memory,
}

impl Scope {
    /// The scope's number.
    pub fn id(self) -> u32 {
        match self {
            Scope::Gpu => 0,
            Scope::Module => 1,
            Scope::Memory => 2,
        }
    }
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockDomain {
    /// Streaming multiprocessors.
    Sm,
    /// Memory.
    Memory,
}

/// Utilisation as NVML averages it (over up to a second).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilisation {
    /// Percent of time in which a kernel ran.
    pub gpu: u32,
    /// Percent of time in which memory was read or written.
    pub memory: u32,
}

/// A GPM sample buffer: an opaque number of the [`Api`] that allocated it, to be freed by the same.
#[derive(Debug, PartialEq, Eq)]
pub struct GpmSample(pub usize);

/// The NVML calls. All may be made from any thread.
pub trait Api: Send + Sync {
    /// All devices this process may see.
    ///
    /// # Errors
    /// [`NvmlError`], as for every call below.
    fn devices(&self) -> Result<Vec<DeviceInfo>, NvmlError>;

    /// Power samples newer than `after_us`, in the order the driver gives them; 0 asks for the
    /// whole ring.
    ///
    /// # Errors
    /// See [`Api::devices`]. Nothing newer is an empty list.
    fn power_samples(&self, device: Index, after_us: u64) -> Result<Vec<PowerSample>, NvmlError>;

    /// nvmlDeviceGetTotalEnergyConsumption, millijoules since the driver was loaded.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn total_energy_mj(&self, device: Index) -> Result<u64, NvmlError>;

    /// A field in its unit.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn field(&self, device: Index, field: Field, scope: Scope) -> Result<u64, NvmlError>;

    /// A clock's frequency now, MHz.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn clock_mhz(&self, device: Index, clock: ClockDomain) -> Result<u32, NvmlError>;

    /// Temperature of the GPU, degrees Celsius.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn temperature_c(&self, device: Index) -> Result<u32, NvmlError>;

    /// Why the clocks are what they are: [`crate::reasons`].
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn clock_reasons(&self, device: Index) -> Result<u64, NvmlError>;

    /// The power limit in force, milliwatts.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn power_limit_mw(&self, device: Index) -> Result<u32, NvmlError>;

    /// Utilisation.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn utilisation(&self, device: Index) -> Result<Utilisation, NvmlError>;

    /// Whether the device has GPM (Hopper and later).
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn gpm_supported(&self, device: Index) -> Result<bool, NvmlError>;

    /// A buffer for a sample.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn gpm_alloc(&self) -> Result<GpmSample, NvmlError>;

    /// Frees a buffer.
    fn gpm_free(&self, sample: GpmSample);

    /// Fills the buffer with the device's last snapshot.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn gpm_get(&self, device: Index, sample: &mut GpmSample) -> Result<(), NvmlError>;

    /// The metrics between two samples, `None` for one that the device does not have; NaN as NVML
    /// gives it.
    ///
    /// # Errors
    /// See [`Api::devices`].
    fn gpm_metrics(
        &self,
        from: &GpmSample,
        to: &GpmSample,
        ids: &[u32],
    ) -> Result<Vec<Option<f64>>, NvmlError>;
}
