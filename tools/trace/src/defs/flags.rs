//! Owns what bits of the API's flags in definitions mean (cl.h), for whoever asks more than what
//! was recorded. Refuses to be a list of all of them: those that no reader needs are not here.

use crate::defs::{Device, Queue};

const DEVICE_TYPE_CPU: u64 = 1 << 1;
const DEVICE_TYPE_GPU: u64 = 1 << 2;
const QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE: u64 = 1;

impl Device {
    /// Whether it is a processor (CL_DEVICE_TYPE_CPU).
    pub const fn is_cpu(&self) -> bool {
        self.device_type & DEVICE_TYPE_CPU != 0
    }

    /// Whether it is a GPU (CL_DEVICE_TYPE_GPU).
    pub const fn is_gpu(&self) -> bool {
        self.device_type & DEVICE_TYPE_GPU != 0
    }
}

impl Queue {
    /// Whether its commands may run in another order than they were enqueued in.
    pub const fn is_out_of_order(&self) -> bool {
        self.properties & QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0
    }
}
