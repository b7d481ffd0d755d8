//! Types of arguments, for the library and for the log.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ushort, c_void};

use crate::queue::HostFunction;
use crate::state::{Answer, Refusal};

/// A type of argument.
pub(crate) trait Argument: Sized {
    /// The library's view of it.
    type Seen: Copy;

    /// # Safety
    ///
    /// A pointer is valid for the driver's function: null, valid for a write until the call
    /// returns, or only compared.
    unsafe fn seen(self) -> Self::Seen;

    /// The log's view of it.
    fn value(seen: Self::Seen) -> u64;
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Argument for $type {
            type Seen = Self;

            unsafe fn seen(self) -> Self {
                self
            }

            fn value(seen: Self) -> u64 {
                seen as u64
            }
        }
    )* };
}

integers!(c_int, c_uchar, c_uint, c_ushort, u64, usize);

impl Argument for HostFunction {
    type Seen = Self;

    unsafe fn seen(self) -> Self {
        self
    }

    fn value(seen: Self) -> u64 {
        (seen as *const c_void).addr() as u64
    }
}

/// A handle, an address of host memory, or an address to write to.
pub(crate) struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    pub(crate) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

impl<T: Given> Place<T> {
    /// Writes a value.
    pub(crate) fn put(self, value: u64) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::value("the place for what it writes is NULL"));
        }
        // SAFETY: it is not null, so by the contract of `seen` it is valid for a write.
        unsafe { self.0.write_unaligned(T::of(value)) };
        Ok(())
    }
}

impl<T> Place<T> {
    /// # Safety
    ///
    /// It is null, or a text that ends with a zero.
    pub(crate) unsafe fn text(self) -> Result<String, Refusal> {
        if self.0.is_null() {
            return Err(Refusal::value("the text is NULL"));
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(self.0.cast()) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Place<*mut c_void> {
    /// Reads the numbers at these places, of 1 to 8 bytes; structures are read as words of 8.
    ///
    /// # Safety
    ///
    /// It is null, or points to this many pointers, each to a number of its size.
    pub(crate) unsafe fn numbers(self, sizes: &[usize]) -> Result<Vec<u64>, Refusal> {
        if self.0.is_null() {
            return Err(Refusal::value("there are no arguments"));
        }
        let number = |(at, size): (usize, &usize)| {
            // SAFETY: there are as many places, by the caller's promise.
            let place = unsafe { self.0.add(at) };
            // SAFETY: as above.
            let place = unsafe { place.read() };
            match size {
                // SAFETY: by the caller's promise the number there has this many bytes.
                1 => Ok(unsafe { place.cast::<u8>().read() }.into()),
                // SAFETY: as above.
                2 => Ok(unsafe { place.cast::<u16>().read_unaligned() }.into()),
                // SAFETY: as above.
                4 => Ok(unsafe { place.cast::<u32>().read_unaligned() }.into()),
                // SAFETY: as above.
                8 => Ok(unsafe { place.cast::<u64>().read_unaligned() }),
                size => Err(Refusal::value(format!("a parameter of {size} bytes"))),
            }
        };
        let mut numbers = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            if *size <= 8 {
                numbers.push(number((at, size))?);
                continue;
            }
            // SAFETY: there are as many places, by the caller's promise.
            let place = unsafe { self.0.add(at) };
            // SAFETY: as above.
            let words = unsafe { place.read() }.cast::<u64>();
            // SAFETY: this many bytes are there, which are words.
            numbers.extend((0..size / 8).map(|word| {
                // It stays inside.
                let word = words.wrapping_add(word);
                // SAFETY: as above.
                unsafe { word.read_unaligned() }
            }));
        }
        Ok(numbers)
    }
}

impl Place<c_int> {
    /// Reads the number there.
    ///
    /// # Safety
    ///
    /// It is null, or points to a number.
    pub(crate) unsafe fn number(self) -> Result<c_int, Refusal> {
        if self.0.is_null() {
            return Err(Refusal::value("the place of what it reads is NULL"));
        }
        // SAFETY: it is not null, so by the caller's promise it points to a number.
        Ok(unsafe { self.0.read() })
    }
}

impl Place<c_char> {
    /// Writes a text and a zero, if there is enough room.
    pub(crate) fn put_text(self, text: &str, room: c_int) -> Answer {
        let room = usize::try_from(room).unwrap_or(0);
        if self.0.is_null() || text.len() >= room {
            return Err(Refusal::value(format!("{room} bytes have no room for {text}")));
        }
        let to = self.0.cast::<u8>();
        // SAFETY: there is room for this many bytes, by the contract of `seen`.
        unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: as above; there is one more.
        let end = unsafe { to.add(text.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        Ok(())
    }
}

impl<T> Argument for *mut T {
    type Seen = Place<T>;

    unsafe fn seen(self) -> Place<T> {
        Place(self)
    }

    fn value(seen: Place<T>) -> u64 {
        seen.address()
    }
}

impl<T> Argument for *const T {
    type Seen = Place<T>;

    unsafe fn seen(self) -> Place<T> {
        Place(self.cast_mut())
    }

    fn value(seen: Place<T>) -> u64 {
        seen.address()
    }
}

/// Values that the library writes.
pub(crate) trait Given: Sized {
    /// From a number.
    fn of(value: u64) -> Self;
}

impl Given for c_int {
    fn of(value: u64) -> Self {
        value as Self
    }
}

/// Its bits.
impl Given for f32 {
    fn of(value: u64) -> Self {
        Self::from_bits(value as u32)
    }
}

impl Given for usize {
    fn of(value: u64) -> Self {
        value as Self
    }
}

impl Given for u64 {
    fn of(value: u64) -> Self {
        value
    }
}

impl Given for *mut c_void {
    fn of(value: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(value as usize)
    }
}

impl Given for *const c_char {
    fn of(value: u64) -> Self {
        std::ptr::with_exposed_provenance(value as usize)
    }
}
