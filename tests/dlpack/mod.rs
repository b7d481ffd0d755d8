//! DLPack on the host: import from and export to another library.

mod anything;
mod descriptions;
mod export;
mod foreign;
mod lifetime;
mod types;

use std::time::Duration;

use typed_nccl::interop::dlpack::DLDevice;
use typed_nccl::{AnyDevice, Host};

pub(crate) type Dev = Host<AnyDevice>;

pub(crate) const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

pub(crate) const READ_ONLY: u64 = 1;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
