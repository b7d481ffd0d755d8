//! Second addresses of memory.

use std::ffi::c_void;

use crate::code::Code;
use crate::export::exports;
use crate::state::Refusal;

exports! {
    fn cuMemRetainAllocationHandle(handle: *mut u64, addr: *mut c_void) = |library| {
        library.current()?;
        // Querying is not misuse.
        library.has_handle(addr.address()).ok_or(Refusal::Plain(Code::INVALID_VALUE))?;
        let retained = library.handle();
        library.retained.insert(retained);
        library.gives(retained);
        handle.put(retained)
    };

    fn cuMemRelease(handle: u64) = |library| {
        library.retained(handle)?;
        library.retained.remove(&handle);
        Ok(())
    };

    fn cuMemGetAddressRange_v2(pbase: *mut u64, psize: *mut usize, dptr: u64) = |library| {
        library.current()?;
        let bytes = library.has_handle(dptr).ok_or(Refusal::Plain(Code::INVALID_VALUE))?;
        library.gives(dptr);
        psize.put(bytes as u64)?;
        pbase.put(dptr)
    };

    fn cuMemAddressReserve(
        ptr: *mut u64,
        size: usize,
        alignment: usize,
        addr: u64,
        flags: u64,
    ) = |library| {
        let start = library.reserve(size)?;
        library.gives(start);
        ptr.put(start)
    };

    fn cuMemAddressFree(ptr: u64, size: usize) = |library| {
        if library.range(ptr, size)?.mapped {
            return Err(Refusal::value(format!("{ptr:#x} is mapped")));
        }
        library.ranges.remove(&ptr);
        Ok(())
    };

    fn cuMemMap(ptr: u64, size: usize, offset: usize, handle: u64, flags: u64) = |library| {
        library.retained(handle)?;
        let range = library.range(ptr, size)?;
        if range.mapped || offset != 0 {
            return Err(Refusal::value(format!("{ptr:#x} is mapped already, or to a part")));
        }
        range.mapped = true;
        Ok(())
    };

    fn cuMemUnmap(ptr: u64, size: usize) = |library| {
        let range = library.range(ptr, size)?;
        if !range.mapped {
            return Err(Refusal::Plain(Code::INVALID_VALUE));
        }
        (range.mapped, range.allowed) = (false, false);
        Ok(())
    };

    fn cuMemSetAccess(ptr: u64, size: usize, desc: *const c_void, count: usize) = |library| {
        let range = library.range(ptr, size)?;
        if !range.mapped || desc.address() == 0 || count != 1 {
            return Err(Refusal::value(format!("{ptr:#x} is not mapped, or not for one device")));
        }
        range.allowed = true;
        Ok(())
    };
}
