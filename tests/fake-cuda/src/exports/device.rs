//! The driver itself, and its devices.

use std::ffi::{c_char, c_int, c_uint};

use crate::code::Code;
use crate::export::exports;
use crate::gpus;
use crate::state::Refusal;

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`
const MULTIPROCESSORS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`
const BUS: c_int = 33;
/// `CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID`
const ON_THE_BUS: c_int = 34;
/// `CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID`
const DOMAIN: c_int = 50;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`
const GENERATION: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`
const POOLS: c_int = 115;

exports! {
    fn cuInit(Flags: c_uint) = |library| {
        if Flags != 0 {
            return Err(Refusal::value("cuInit takes no flags"));
        }
        library.started = true;
        Ok(())
    };

    fn cuDriverGetVersion(driverVersion: *mut c_int) = |_library| {
        // Newer than any compiler's requirement.
        driverVersion.put(99000)
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
        let device = library.device(dev)?;
        let (domain, bus, device) = gpus::place(library.physical(device));
        pi.put(match attrib {
            BUS => bus,
            ON_THE_BUS => device,
            DOMAIN => domain,
            MULTIPROCESSORS => 132,
            // A generation that reduces 8-bit floats.
            GENERATION => 9,
            // Memory is freed in stream order.
            POOLS => 1,
            // All other attributes are 0.
            _ => 0,
        })
    };

    fn cuDeviceGetPCIBusId(pciBusId: *mut c_char, len: c_int, dev: c_int) = |library| {
        let device = library.device(dev)?;
        let (domain, bus, device) = gpus::place(library.physical(device));
        pciBusId.put_text(&format!("{domain:04x}:{bus:02x}:{device:02x}.0"), len)
    };
}
