//! A loaded copy of the double, as tests see it.

use std::ffi::CString;

use double::Library;

use crate::call::Call;
use crate::code::Code;
use crate::control::{Controls, Live};
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
        // SAFETY: a `File` is a copy of this library.
        let loaded = unsafe { double::load(file.path()) };
        // SAFETY: as above.
        let controls = unsafe { Controls::of(loaded) };
        Self { loaded, controls }
    }

    /// The calls since the last [`clear`](Self::clear), in order.
    pub fn log(&self) -> Vec<Call> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_cuda_log) }
    }

    /// The functions that were called since the last [`clear`](Self::clear), in order.
    pub fn called(&self) -> Vec<&'static str> {
        self.log().iter().map(|call| call.function).collect()
    }

    /// What was refused since the last [`clear`](Self::clear) that the driver's contract does not
    /// allow: handles that are no handles, memory that is freed, threads without a context.
    pub fn misuse(&self) -> Vec<String> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_cuda_misuse) }
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
        unsafe { double::function(self.loaded, name) }
    }
}
