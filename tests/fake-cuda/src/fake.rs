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
    /// Loads a file. Loading it again returns the same library, with the same state.
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
        // SAFETY: the function may be called at any time.
        unsafe { double::told(self.controls.fake_cuda_log) }
    }

    /// The functions that were called since the last [`clear`](Self::clear), in order.
    pub fn called(&self) -> Vec<&'static str> {
        self.log().iter().map(|call| call.function).collect()
    }

    /// Calls since the last [`clear`](Self::clear) that violate the driver's contract: invalid
    /// handles, freed memory, threads without a context.
    pub fn misuse(&self) -> Vec<String> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_cuda_misuse) }
    }

    /// Clears the calls and the misuse; handles stay valid.
    pub fn clear(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_clear)() }
    }

    /// Sets the number of devices, initially 4.
    pub fn set_devices(&self, count: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_devices)(count) }
    }

    /// Sets each device's memory in bytes, initially 256 MiB.
    pub fn set_limit(&self, bytes: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_limit)(bytes) }
    }

    /// The number of the library's own kernels that have begun, on communicators that were not
    /// over.
    pub fn begun(&self) -> usize {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_begun)() }
    }

    /// From now on, memory that this library did not allocate is virtual memory in pieces of this
    /// many bytes, which can be mapped again. Initially, and with 0, it cannot.
    pub fn set_virtual(&self, bytes: usize) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_cuda_set_virtual)(bytes) }
    }

    /// From now on a capture in CUDA's default mode, which breaks if another thread asks anything,
    /// is allowed: another library's. This library captures in relaxed mode only.
    pub fn set_others_capture(&self, captures: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_set_others_capture)(captures) }
    }

    /// Loses the devices, or restores them. While they are lost every call fails with
    /// [`ILLEGAL_ADDRESS`](Code::ILLEGAL_ADDRESS), except those for the texts of errors.
    pub fn set_fault(&self, fault: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_cuda_set_fault)(fault) }
    }

    /// The next call of a function has no effect and returns this; several add up.
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

    /// Holds a stream: work enqueued on it from now on is not done, and the stream is busy.
    ///
    /// # Panics
    ///
    /// It is not a stream of this library.
    pub fn hold(&self, stream: u64) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_cuda_hold)(stream) };
        assert!(known, "{stream:#x} is no stream of this library");
    }

    /// Releases a stream.
    ///
    /// # Panics
    ///
    /// It is not a stream of this library.
    pub fn release(&self, stream: u64) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_cuda_release)(stream) };
        assert!(known, "{stream:#x} is no stream of this library");
    }

    /// Releases every stream.
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

    /// The resources handed out and not taken back.
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
