//! Pointers passed as arguments, under NCCL's contract. Only the exported functions create them,
//! and they are used only during the call.

use std::ffi::{c_int, c_uint};
use std::ptr;

use nccl_sys::{
    Layout, NCCL_API_MAGIC, SIM_INFO_MAGIC, ncclCollConfig_t, ncclCommProperties_t, ncclConfig_t,
    ncclDevCommRequirements_t, ncclEncryptionConfig_t, ncclSimInfo_t,
};

use crate::state::{Answer, Refusal};

/// A pointer that the library reads: null, or to one or more values.
pub(crate) struct Source<T>(*const T);

/// A pointer that the library writes: null, or valid for a value.
pub(crate) struct Place<T>(*mut T);

// SAFETY: it is an address; every write relies on the contract of `new`.
unsafe impl<T> Send for Place<T> {}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Source<T> {}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Source<T> {
    /// # Safety
    ///
    /// It is null, points to a value (for a struct with a header, to `size` bytes of it) until the
    /// call returns, or is a handle or an address of which nothing is read here.
    pub(crate) unsafe fn new(pointer: *const T) -> Self {
        Self(pointer)
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// The address, for use after this call has returned.
    pub(crate) fn exposed(self) -> usize {
        self.0.expose_provenance()
    }

    /// The same pointer, as bytes.
    pub(crate) fn of_bytes(self) -> Source<u8> {
        Source(self.0.cast())
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> Source<T> {
    /// The value; `None` for null.
    pub(crate) fn get(self) -> Option<T> {
        if self.is_null() {
            return None;
        }
        // SAFETY: it is not null, so it points to a value, by the contract of `new`; a C caller may
        // not align it.
        Some(unsafe { self.0.read_unaligned() })
    }

    /// The values of an array; `None` for null.
    ///
    /// # Safety
    ///
    /// If it is not null, there are as many values.
    pub(crate) unsafe fn list(self, count: c_int) -> Option<Vec<T>> {
        let count = usize::try_from(count).unwrap_or(0);
        let read = |at: usize| {
            // SAFETY: the value lies within the array, by this function's contract.
            let element = unsafe { self.0.add(at) };
            // SAFETY: it is a value of the array.
            unsafe { element.read_unaligned() }
        };
        (!self.is_null()).then(|| (0..count).map(read).collect())
    }
}

impl<T> Place<T> {
    /// # Safety
    ///
    /// It is null, valid for writing a value (for a struct with a header, `size` bytes of it) until
    /// the call returns, or a handle or an address to which nothing is written here.
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The same pointer, for reading.
    pub(crate) fn source(self) -> Source<T> {
        Source(self.0)
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// The address, for use after this call has returned.
    pub(crate) fn exposed(self) -> usize {
        self.0.expose_provenance()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes a value.
    pub(crate) fn put(self, value: T) -> Answer {
        self.needed()?;
        // SAFETY: it is not null, so by the contract of `new` it is valid for a write.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Safety
    ///
    /// It is null, or there is room for as many bytes.
    pub(crate) unsafe fn put_bytes(self, bytes: &[u8]) -> Answer {
        self.needed()?;
        // SAFETY: it is not null, so there is room for them, by this function's contract.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), bytes.len()) };
        Ok(())
    }

    /// The first bytes.
    ///
    /// # Safety
    ///
    /// It is not null, and there are as many initialised bytes.
    pub(crate) unsafe fn bytes(self, count: usize) -> Vec<u8> {
        // SAFETY: this function's contract is that one's.
        unsafe { std::slice::from_raw_parts(self.0.cast(), count) }.to_vec()
    }

    /// Refuses null, before anything else is done.
    pub(crate) fn needed(self) -> Answer {
        if self.is_null() {
            return Err(Refusal::argument("the place for what it writes is NULL"));
        }
        Ok(())
    }

    /// A number in it, for writing after this call has returned.
    pub(crate) fn part(self, offset: usize) -> *mut u32 {
        self.0.wrapping_byte_add(offset).cast()
    }

    /// The pointer to another element of an array.
    ///
    /// # Safety
    ///
    /// It is not null, and the array has this element.
    pub(crate) unsafe fn at(self, index: usize) -> Self {
        // SAFETY: the element lies within the array, by this function's contract.
        Self(unsafe { self.0.add(index) })
    }
}

/// A struct that begins with `size`, `magic` and `version`.
pub(crate) trait Versioned: Layout {
    /// Its magic number.
    const MAGIC: c_uint = NCCL_API_MAGIC;
}

impl Versioned for ncclCollConfig_t {}
impl Versioned for ncclCommProperties_t {}
impl Versioned for ncclConfig_t {}
impl Versioned for ncclDevCommRequirements_t {}
impl Versioned for ncclEncryptionConfig_t {}
impl Versioned for ncclSimInfo_t {
    const MAGIC: c_uint = SIM_INFO_MAGIC;
}

/// The beginning of such a struct.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) size: usize,
    magic: c_uint,
    pub(crate) version: c_uint,
}

impl<T: Versioned> Source<T> {
    /// The header, if it is one; a refusal for null and for anything else.
    pub(crate) fn header(self) -> Result<Header, Refusal> {
        // SAFETY: it is null or points to a struct that begins with a header. A struct of a release
        // before it had one begins with two pointers, which are as long.
        let header = unsafe { Source::<Header>::new(self.0.cast()) }.get();
        let header = header.ok_or_else(|| Refusal::argument("a struct that it needs is NULL"))?;
        if header.magic != T::MAGIC || header.size < size_of::<Header>() {
            let (size, magic) = (header.size, header.magic);
            let words = format!("{} has size {size} and magic {magic:#x}", T::NAME);
            return Err(Refusal::argument(words));
        }
        Ok(header)
    }

    /// Like [`Self::header`], but null is allowed.
    pub(crate) fn optional_header(self) -> Result<Option<Header>, Refusal> {
        if self.is_null() { Ok(None) } else { self.header().map(Some) }
    }

    /// The first `size` bytes of it, or the header's if it has none; `None` for null.
    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        if self.is_null() {
            return None;
        }
        let size = self.header().map_or(size_of::<Header>(), |header| header.size);
        // SAFETY: it is not null; by the contract of `new`, `size` bytes of it exist, or a
        // header's.
        Some(unsafe { fields(self.0, size.min(size_of::<T>())) })
    }
}

impl<T: Versioned> Place<T> {
    /// Writes the fields after the header, as far as the caller's `size` goes.
    pub(crate) fn fill(self, value: &T) -> Answer {
        let size = self.source().header()?.size;
        let fields = T::FIELDS.iter().filter(|field| {
            field.offset >= size_of::<Header>() && field.offset + field.size <= size
        });
        for field in fields {
            // SAFETY: the field lies within the value.
            let from = unsafe { ptr::from_ref(value).cast::<u8>().add(field.offset) };
            // SAFETY: the field lies within the caller's `size`, so within the existing struct.
            let to = unsafe { self.0.cast::<u8>().add(field.offset) };
            // SAFETY: both are a field's bytes, one of them this library's own.
            unsafe { ptr::copy_nonoverlapping(from, to, field.size) };
        }
        Ok(())
    }
}

/// The first bytes of a struct; padding reads as zero.
///
/// # Safety
///
/// There are as many bytes of a struct.
pub(crate) unsafe fn fields<T: Layout>(from: *const T, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for field in T::FIELDS {
        let Some(place) = bytes.get_mut(field.offset..field.offset + field.size) else { break };
        // SAFETY: the field ends within `size`.
        let field = unsafe { from.cast::<u8>().add(field.offset) };
        // SAFETY: fields, unlike padding, are initialised; the target has the same length.
        unsafe { ptr::copy_nonoverlapping(field, place.as_mut_ptr(), place.len()) };
    }
    bytes
}

/// A pointer that can be read through.
pub(crate) trait Readable<T> {
    /// The pointer.
    fn readable(self) -> Source<T>;
}

impl<T> Readable<T> for Source<T> {
    fn readable(self) -> Self {
        self
    }
}

impl<T> Readable<T> for Place<T> {
    fn readable(self) -> Source<T> {
        self.source()
    }
}
