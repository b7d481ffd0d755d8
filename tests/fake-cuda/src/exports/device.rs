//! The driver itself, and its devices.

use std::ffi::{c_int, c_uint};

use crate::code::Code;
use crate::export::exports;
use crate::state::Refusal;

exports! {
    fn cuInit(Flags: c_uint) = |library| {
        if Flags != 0 {
            return Err(Refusal::value("cuInit takes no flags"));
        }
        library.started = true;
        Ok(())
    };

    fn cuDeviceGetCount(count: *mut c_int) = |library| {
        let devices = library.devices as u64;
        library.gives(devices);
        count.put(devices)
    };

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) = |library| {
        if usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < library.devices) {
            return device.put(ordinal as u64);
        }
        Err(Refusal::Plain(Code::INVALID_DEVICE))
    };

    fn cuDeviceGetAttribute(pi: *mut c_int, attrib: c_int, dev: c_int) = |library| {
        library.device(dev)?;
        // The devices can nothing in particular.
        pi.put(0)
    };
}
