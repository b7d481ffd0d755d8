//! Device and host memory, and operations on it in stream order.

use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::memory;
use crate::queue::Work;
use crate::state::Refusal;

exports! {
    fn cuMemAlloc_v2(dptr: *mut u64, bytesize: usize) = |library| {
        let device = library.current()?;
        library.is_no_capturer("allocating")?;
        if bytesize == 0 {
            return Err(Refusal::value("nothing is asked for"));
        }
        let address = library.allocate(device, bytesize)?;
        library.gives(address);
        dptr.put(address)
    };

    fn cuMemFree_v2(dptr: u64) = |library| {
        library.current()?;
        library.is_no_capturer("freeing")?;
        let device = library.live(dptr)?.device;
        library.wait(|state| state.is_idle(device))?;
        // Another call may have freed it meanwhile.
        library.live(dptr)?.freed = true;
        Ok(())
    };

    fn cuMemAllocAsync(dptr: *mut u64, bytesize: usize, hStream: *mut c_void) = |library| {
        library.current()?;
        let device = library.stream(hStream.address())?.device;
        let address = library.allocate(device, bytesize)?;
        library.gives(address);
        dptr.put(address)
    };

    fn cuMemFreeAsync(dptr: u64, hStream: *mut c_void) = |library| {
        library.stream(hStream.address())?;
        library.live(dptr)?;
        library.enqueue(hStream.address(), Work::Free(dptr));
        Ok(())
    };

    fn cuPointerGetAttribute(data: *mut c_int, attribute: c_uint, ptr: u64) = |library| {
        const DEVICE_ORDINAL: u64 = 9;
        if u64::from(attribute) != DEVICE_ORDINAL {
            return Err(Refusal::value(format!("the double has no attribute {attribute}")));
        }
        // Querying is not misuse.
        let device = library.piece(ptr).filter(|(_, piece)| !piece.freed);
        let device = device.map(|(_, piece)| piece.device);
        data.put(device.ok_or(Refusal::Plain(Code::INVALID_VALUE))? as u64)
    };

    fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: c_uint) = |library| {
        library.current()?;
        library.is_no_capturer("allocating")?;
        let Some(address) = memory::rubbish(bytesize) else {
            return Err(Refusal::Plain(Code::OUT_OF_MEMORY));
        };
        library.pinned += 1;
        library.gives(address);
        pp.put(address)
    };

    fn cuMemsetD8Async(dstDevice: u64, uc: c_uchar, N: usize, hStream: *mut c_void) = |library| {
        let device = library.current()?;
        library.enter(device)?;
        library.reaches(dstDevice, N)?;
        library.stream(hStream.address())?;
        let set = Work::Set { to: dstDevice, value: uc.into(), width: 1, pitch: 1, count: N };
        library.enqueue(hStream.address(), set);
        Ok(())
    };

    fn cuMemsetD16Async(dstDevice: u64, us: c_ushort, N: usize, hStream: *mut c_void) = |library| {
        library.current()?;
        library.reaches(dstDevice, N.saturating_mul(2))?;
        library.stream(hStream.address())?;
        let set = Work::Set { to: dstDevice, value: us.into(), width: 2, pitch: 2, count: N };
        library.enqueue(hStream.address(), set);
        Ok(())
    };

    fn cuMemsetD2D32Async(
        dstDevice: u64,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
        hStream: *mut c_void,
    ) = |library| {
        library.current()?;
        if Width != 1 || Height == 0 || dstPitch < 4 {
            return Err(Refusal::value("the double sets one value in each row"));
        }
        library.reaches(dstDevice, dstPitch.saturating_mul(Height - 1).saturating_add(4))?;
        library.stream(hStream.address())?;
        let set =
            Work::Set { to: dstDevice, value: ui, width: 4, pitch: dstPitch, count: Height };
        library.enqueue(hStream.address(), set);
        Ok(())
    };

    fn cuMemsetD32Async(dstDevice: u64, ui: c_uint, N: usize, hStream: *mut c_void) = |library| {
        library.current()?;
        library.reaches(dstDevice, N.saturating_mul(4))?;
        library.stream(hStream.address())?;
        let set = Work::Set { to: dstDevice, value: ui, width: 4, pitch: 4, count: N };
        library.enqueue(hStream.address(), set);
        Ok(())
    };

    fn cuMemcpyDtoDAsync_v2(
        dstDevice: u64,
        srcDevice: u64,
        ByteCount: usize,
        hStream: *mut c_void,
    ) = |library| {
        library.current()?;
        library.reaches(dstDevice, ByteCount)?;
        library.reaches(srcDevice, ByteCount)?;
        library.stream(hStream.address())?;
        let copy = Work::Copy { to: dstDevice, from: srcDevice, bytes: ByteCount };
        library.enqueue(hStream.address(), copy);
        Ok(())
    };

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = |library| {
        let device = library.current()?;
        let limit = library.limit as u64;
        total.put(limit)?;
        free.put(limit.saturating_sub(library.used(device) as u64))
    };

    fn cuMemcpyHtoDAsync_v2(
        dstDevice: u64,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: *mut c_void,
    ) = |library| {
        library.current()?;
        library.reaches(dstDevice, ByteCount)?;
        library.stream(hStream.address())?;
        let copy = Work::Copy { to: dstDevice, from: srcHost.address(), bytes: ByteCount };
        library.enqueue(hStream.address(), copy);
        Ok(())
    };

    fn cuMemcpyDtoHAsync_v2(
        dstHost: *mut c_void,
        srcDevice: u64,
        ByteCount: usize,
        hStream: *mut c_void,
    ) = |library| {
        library.current()?;
        library.reaches(srcDevice, ByteCount)?;
        library.stream(hStream.address())?;
        let copy = Work::Copy { to: dstHost.address(), from: srcDevice, bytes: ByteCount };
        library.enqueue(hStream.address(), copy);
        Ok(())
    };
}
