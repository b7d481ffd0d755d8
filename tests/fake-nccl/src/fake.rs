//! A loaded copy of the double, as tests see it.

use std::ffi::{CString, c_int};
use std::path::Path;
use std::sync::OnceLock;

use nccl_sys::{Api, Function, LoadError, ncclComm_t, ncclResult_t};

use crate::call::Call;
use crate::control::{Controls, Live};
use crate::file::File;

/// A loaded copy of the double. It is never unloaded.
pub struct Fake {
    file: File,
    controls: Controls,
}

impl Fake {
    /// A library of one's own, as a new [`File::copy`] in a folder.
    ///
    /// # Panics
    ///
    /// As of [`File::copy`] and [`File::load`].
    pub fn new(folder: impl AsRef<Path>) -> Self {
        File::copy(folder).load()
    }

    /// A library of one's own, as a new [`File::release`] in a folder.
    ///
    /// # Panics
    ///
    /// As of [`File::release`] and [`File::load`].
    #[cfg(target_os = "linux")]
    pub fn release(version: nccl_sys::Version, folder: impl AsRef<Path>) -> Self {
        File::release(version, folder).load()
    }

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
        Self { file: file.clone(), controls }
    }

    /// Its functions, as the loader of `nccl-sys` finds them.
    ///
    /// # Errors
    ///
    /// Those of the loader.
    pub fn api(&self) -> Result<&'static Api, LoadError> {
        // SAFETY: the double has the functions of NCCL, of their types, and under their contracts.
        unsafe { Api::load_from(self.file.path()) }
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The calls since the last [`clear`](Self::clear), in order.
    pub fn log(&self) -> Vec<Call> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_nccl_log) }
    }

    /// The functions that were called since the last [`clear`](Self::clear), in order.
    pub fn called(&self) -> Vec<Function> {
        self.log().iter().map(|call| call.function).collect()
    }

    /// What was refused since the last [`clear`](Self::clear) that nobody had
    /// [asked](Self::fail) to fail: handles that are no handles, groups that are not open.
    pub fn misuse(&self) -> Vec<String> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_nccl_misuse) }
    }

    /// Forgets the calls and the misuse; handles live on.
    pub fn clear(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_clear)() }
    }

    /// What it says of its version from now on.
    pub fn set_version(&self, code: c_int) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_nccl_set_version)(code) }
    }

    /// The CUDA device of the calling thread, 0 at first: where a communicator that it makes is.
    pub fn set_device(&self, ordinal: c_int) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_nccl_set_device)(ordinal) }
    }

    /// The next call of a function returns this; several add up.
    ///
    /// A call that fails does nothing else. With
    /// [`ncclInProgress`](ncclResult_t::ncclInProgress) it does what it does, as NCCL goes on when it
    /// returns that, and with [`ncclSuccess`](ncclResult_t::ncclSuccess) it is left alone. Functions
    /// that return no result cannot fail.
    pub fn fail(&self, function: Function, result: ncclResult_t) {
        let name = CString::new(function.name()).expect("a function's name has no zero");
        // SAFETY: the name ends with a zero, and lives until the call has returned.
        let known = unsafe { (self.controls.fake_nccl_fail)(name.as_ptr(), result) };
        assert!(known, "{function} is declared");
    }

    /// Whether calls of a function wait until their communicator is revoked, as calls do that connect
    /// ranks which never come. A call that was freed gives `ncclInternalError`, and is in the log then.
    pub fn set_stuck(&self, function: Function, stuck: bool) {
        let name = CString::new(function.name()).expect("a function's name has no zero");
        // SAFETY: the name ends with a zero, and lives until the call has returned.
        let known = unsafe { (self.controls.fake_nccl_set_stuck)(name.as_ptr(), stuck) };
        assert!(known, "{function} is declared");
    }

    /// What `ncclCommGetAsyncError` says of a communicator from now on.
    ///
    /// # Panics
    ///
    /// It is no communicator of this library, or freed.
    pub fn set_async_error(&self, comm: ncclComm_t, result: ncclResult_t) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_nccl_set_async_error)(comm.addr(), result) };
        assert!(known, "{comm:?} is no communicator of this library");
    }

    /// What `ncclGetLastError` says, until something is refused.
    ///
    /// # Panics
    ///
    /// There is a zero in it.
    pub fn set_last_error(&self, text: &str) {
        let text = CString::new(text).expect("there is no zero in the text");
        // SAFETY: the text ends with a zero, and lives until the call has returned.
        unsafe { (self.controls.fake_nccl_set_last_error)(text.as_ptr()) }
    }

    /// This rank and the number of ranks in the next child of a split; several add up. Without it the
    /// child has its parent's.
    pub fn next_split(&self, rank: c_int, count: c_int) {
        // SAFETY: it may be called at any time, with any numbers.
        unsafe { (self.controls.fake_nccl_next_split)(rank, count) }
    }

    /// Has this called before each call, on the thread that calls and with nothing locked: it may wait,
    /// or look at what that thread has.
    ///
    /// # Panics
    ///
    /// In the call, where the function panics: that ends the program.
    pub fn before(&self, tell: fn(Function)) {
        static TELL: OnceLock<fn(Function)> = OnceLock::new();
        unsafe extern "C" fn call(name: *const u8, length: usize) {
            // SAFETY: the double passes so many bytes, which stay.
            let name = unsafe { std::slice::from_raw_parts(name, length) };
            let function = Function::ALL.iter().find(|function| function.name().as_bytes() == name);
            if let (Some(function), Some(tell)) = (function, TELL.get()) {
                tell(*function);
            }
        }
        assert!(TELL.set(tell).is_ok(), "a process has one such function");
        // SAFETY: it may be called at any time, with any function that can be called at any time.
        unsafe { (self.controls.fake_nccl_before)(Some(call)) }
    }

    /// Whether windows can be had, as at first. Without them a registration succeeds and gives NULL.
    pub fn set_windows(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_windows)(has) }
    }

    /// Whether communicators say that they have one-sided operations of the host; at first not.
    pub fn set_rma(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_rma)(has) }
    }

    /// Whether communicators say that windows can be the targets of counted transfers; at first not.
    pub fn set_counted(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_counted)(has) }
    }

    /// Whether device communicators can be had; at first not.
    pub fn set_device_api(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_device_api)(has) }
    }

    /// What communicators say of kernels over the network, by NCCL's numbers: the best way, the best one within
    /// a rail, and whom they reach. At first a thread of the host's, none, and the same rail.
    pub fn set_gin(&self, way: c_int, railed: c_int, connections: c_int) {
        // SAFETY: it may be called at any time, with any numbers.
        unsafe { (self.controls.fake_nccl_set_gin)(way, railed, connections) }
    }

    /// Whether windows have addresses in multicast memory and endpoints, and counted transfers have teams of
    /// several ranks; at first not. Nothing is there: the addresses and numbers only tell what was asked for.
    pub fn set_mapped(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_mapped)(has) }
    }

    /// What it has given and not taken back.
    pub fn live(&self) -> Live {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_live)() }
    }
}
