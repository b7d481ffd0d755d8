//! A loaded copy of the double, as tests see it.

use std::ffi::{CString, c_void};

use libloading::Library;

use crate::call::Call;
use crate::code::Code;
use crate::control::{Controls, Live, Sink};
use crate::file::File;

/// A loaded copy of the double. It is never unloaded.
pub struct Fake {
    loaded: &'static Library,
    controls: Controls,
}

impl Fake {
    /// Loads a file. One that is loaded already is the same library, with the same state.
    ///
    /// # Panics
    ///
    /// It does not load.
    pub fn load(file: &File) -> Self {
        // SAFETY: a `File` is a copy of this library, whose initialisers are those of Rust's standard
        // library.
        let library = unsafe { Library::new(file.path()) };
        let loaded = library.and_then(|library| {
            let library: &'static Library = Box::leak(Box::new(library));
            // SAFETY: it is a copy of this library, and stays.
            let controls = unsafe { Controls::of(library) }?;
            Ok(Self { loaded: library, controls })
        });
        match loaded {
            Ok(fake) => fake,
            Err(error) => panic!("{}: {error}", file.path().display()),
        }
    }

    /// The calls since the last [`clear`](Self::clear), in order.
    pub fn log(&self) -> Vec<Call> {
        let line = |line: &str| match line.parse() {
            Ok(call) => call,
            Err(_) => panic!("the log has a line that is no call: {line}"),
        };
        self.text(self.controls.fake_cuda_log).lines().map(line).collect()
    }

    /// The functions that were called since the last [`clear`](Self::clear), in order.
    pub fn called(&self) -> Vec<&'static str> {
        self.log().iter().map(|call| call.function).collect()
    }

    /// What was refused since the last [`clear`](Self::clear) that the driver's contract does not
    /// allow: handles that are no handles, memory that is freed, threads without a context.
    pub fn misuse(&self) -> Vec<String> {
        self.text(self.controls.fake_cuda_misuse).lines().map(str::to_owned).collect()
    }

    /// Forgets the calls and the misuse; handles live on.
    pub fn clear(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_clear)() }
    }

    /// How many devices there are, 4 at first.
    pub fn set_devices(&self, count: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_devices)(count) }
    }

    /// How many bytes of memory each device has, 256 MiB at first.
    pub fn set_limit(&self, bytes: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_limit)(bytes) }
    }

    /// From now on memory that this library did not allocate is virtual memory in pieces of so many
    /// bytes, which can be mapped again. At first, and with 0, it cannot.
    pub fn set_virtual(&self, bytes: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_virtual)(bytes) }
    }

    /// Loses the devices, or gives them back: while they are lost every call fails with
    /// [`ILLEGAL_ADDRESS`](Code::ILLEGAL_ADDRESS), but those for the texts of errors.
    pub fn set_fault(&self, fault: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_set_fault)(fault) }
    }

    /// The next call of a function does nothing and returns this; several add up.
    ///
    /// # Panics
    ///
    /// There is no such function.
    pub fn fail(&self, function: &str, code: Code) {
        let name = CString::new(function).expect("a function's name has no zero");
        // SAFETY: the name ends with a zero, and lives until the call has returned.
        let known = unsafe { (self.controls.fake_cuda_fail)(name.as_ptr(), code.number()) };
        assert!(known, "there is no {function}");
    }

    /// Keeps what is enqueued on a stream from now on from being done. The stream is busy.
    ///
    /// # Panics
    ///
    /// It is no stream of this library.
    pub fn hold(&self, stream: u64) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_cuda_hold)(stream) };
        assert!(known, "{stream:#x} is no stream of this library");
    }

    /// Lets a stream go on.
    ///
    /// # Panics
    ///
    /// It is no stream of this library.
    pub fn release(&self, stream: u64) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_cuda_release)(stream) };
        assert!(known, "{stream:#x} is no stream of this library");
    }

    /// Lets every stream go on.
    pub fn release_all(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_release_all)() }
    }

    /// The device that is current on the calling thread.
    pub fn current(&self) -> Option<u32> {
        // SAFETY: it may be called at any time.
        let device = unsafe { (self.controls.fake_cuda_current)() };
        u32::try_from(device).ok()
    }

    /// What it has given and not taken back.
    pub fn live(&self) -> Live {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_live)() }
    }

    /// A function of the driver's.
    ///
    /// # Safety
    ///
    /// `F` is the function's type.
    ///
    /// # Panics
    ///
    /// There is no such function.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller's promise.
        match unsafe { self.loaded.get(name) } {
            Ok(function) => *function,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    fn text(&self, write: unsafe extern "C" fn(Sink, *mut c_void)) -> String {
        unsafe extern "C" fn append(context: *mut c_void, bytes: *const u8, length: usize) {
            // SAFETY: the context is the buffer below, which nothing else uses meanwhile.
            let buffer = unsafe { &mut *context.cast::<Vec<u8>>() };
            // SAFETY: there are so many bytes, which nobody writes to meanwhile.
            buffer.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, length) });
        }
        let mut buffer = Vec::<u8>::new();
        // SAFETY: `append` takes the bytes with this context, before the call returns.
        unsafe { write(append, (&raw mut buffer).cast()) };
        String::from_utf8_lossy(&buffer).into_owned()
    }
}
