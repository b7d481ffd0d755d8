//! How a test talks to one copy of a double: by functions that the real library lacks, found by
//! name.

use std::ffi::c_void;
use std::path::Path;
use std::str::FromStr;

use libloading::Library;

/// Receives a text from a double: the context passed along, the bytes, and their number.
pub type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// A function of a double that writes a text to a sink with its context before it returns.
pub type Tells = unsafe extern "C" fn(Sink, *mut c_void);

/// Writes a text to a sink, for a [`Tells`] function. The caller holds no lock of the double.
///
/// # Safety
///
/// The context came with the sink.
pub unsafe fn give(text: &str, sink: Sink, context: *mut c_void) {
    // SAFETY: the sink accepts any bytes with the context passed along.
    unsafe { sink(context, text.as_ptr(), text.len()) };
}

/// A double's text, parsed line by line.
///
/// # Panics
///
/// A line is not what [`Display`](std::fmt::Display) of a `T` writes.
///
/// # Safety
///
/// The function is a double's, and may be called now.
pub unsafe fn told<T: FromStr>(tells: Tells) -> Vec<T> {
    unsafe extern "C" fn append(context: *mut c_void, bytes: *const u8, length: usize) {
        // SAFETY: the context is the buffer below, which nothing else uses meanwhile.
        let buffer = unsafe { &mut *context.cast::<Vec<u8>>() };
        // SAFETY: this many bytes exist, and nothing writes to them meanwhile.
        buffer.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, length) });
    }
    let mut buffer = Vec::<u8>::new();
    // SAFETY: `append` takes the bytes with this context, before the call returns.
    unsafe { tells(append, (&raw mut buffer).cast()) };
    let read = |line: &str| match line.parse() {
        Ok(read) => read,
        Err(_) => panic!("a line of a double that cannot be read: {line}"),
    };
    String::from_utf8_lossy(&buffer).lines().map(read).collect()
}

/// Loads a copy of a double, which is never unloaded. Loading it again returns the same library,
/// with the same state.
///
/// # Panics
///
/// It does not load.
///
/// # Safety
///
/// The file is a copy of a double: its initialisers are those of Rust's standard library.
pub unsafe fn load(path: &Path) -> &'static Library {
    // SAFETY: the caller's promise.
    match unsafe { Library::new(path) } {
        Ok(library) => Box::leak(Box::new(library)),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// A function of a loaded library.
///
/// # Panics
///
/// It has no function of this name.
///
/// # Safety
///
/// `F` is the function's type.
pub unsafe fn function<F: Copy>(library: &'static Library, name: &str) -> F {
    // SAFETY: the caller's promise.
    match unsafe { library.get(name) } {
        Ok(function) => *function,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Declares a double's own functions: exports them, and makes `Controls` of a loaded copy's.
#[macro_export]
macro_rules! controls {
    ( $(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $body:block
    )* ) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? $body
        )*

        /// These functions of a loaded copy.
        pub(crate) struct Controls {
            $(
                $(#[$meta])*
                pub(crate) $name: unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?,
            )*
        }

        impl Controls {
            /// # Safety
            ///
            /// The library is a copy of this one.
            pub(crate) unsafe fn of(library: &'static $crate::Library) -> Self {
                Self {
                    $($name: {
                        // SAFETY: a copy of this library has these functions, of the types above.
                        unsafe { $crate::function(library, stringify!($name)) }
                    },)*
                }
            }
        }
    };
}
