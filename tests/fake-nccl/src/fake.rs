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
    /// A separate library, as a new [`File::copy`] in a folder.
    ///
    /// # Panics
    ///
    /// As for [`File::copy`] and [`File::load`].
    pub fn new(folder: impl AsRef<Path>) -> Self {
        File::copy(folder).load()
    }

    /// A separate library, as a new [`File::release`] in a folder.
    ///
    /// # Panics
    ///
    /// As for [`File::release`] and [`File::load`].
    #[cfg(target_os = "linux")]
    pub fn release(version: nccl_sys::Version, folder: impl AsRef<Path>) -> Self {
        File::release(version, folder).load()
    }

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
        Self { file: file.clone(), controls }
    }

    /// Its functions, through the loader of `nccl-sys`.
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
        // SAFETY: the function may be called at any time.
        unsafe { double::told(self.controls.fake_nccl_log) }
    }

    /// The functions that were called since the last [`clear`](Self::clear), in order.
    pub fn called(&self) -> Vec<Function> {
        self.log().iter().map(|call| call.function).collect()
    }

    /// Misuse since the last [`clear`](Self::clear), except calls that were [told](Self::fail) to
    /// fail: invalid handles, groups that are not open.
    pub fn misuse(&self) -> Vec<String> {
        // SAFETY: it may be called at any time.
        unsafe { double::told(self.controls.fake_nccl_misuse) }
    }

    /// Clears the calls and the misuse; handles stay valid.
    pub fn clear(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_clear)() }
    }

    /// Sets the version that it reports.
    pub fn set_version(&self, code: c_int) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_nccl_set_version)(code) }
    }

    /// Sets the CUDA device of the calling thread, initially 0, on which it makes communicators.
    pub fn set_device(&self, ordinal: c_int) {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (self.controls.fake_nccl_set_device)(ordinal) }
    }

    /// The next call of a function returns this; several add up.
    ///
    /// A failing call has no other effect. With [`ncclInProgress`](ncclResult_t::ncclInProgress) it
    /// has its effect, as NCCL continues after it returns that, and with
    /// [`ncclSuccess`](ncclResult_t::ncclSuccess) it is unchanged. Functions without a result
    /// cannot fail.
    pub fn fail(&self, function: Function, result: ncclResult_t) {
        let name = CString::new(function.name()).expect("a function's name has no zero");
        // SAFETY: the name ends with a zero, and lives until the call has returned.
        let known = unsafe { (self.controls.fake_nccl_fail)(name.as_ptr(), result) };
        assert!(known, "{function} is declared");
    }

    /// Makes calls of a function wait until their communicator is revoked, like calls that connect
    /// ranks which never come. A freed call returns `ncclInternalError`, and is logged then.
    pub fn set_stuck(&self, function: Function, stuck: bool) {
        let name = CString::new(function.name()).expect("a function's name has no zero");
        // SAFETY: the name ends with a zero, and lives until the call has returned.
        let known = unsafe { (self.controls.fake_nccl_set_stuck)(name.as_ptr(), stuck) };
        assert!(known, "{function} is declared");
    }

    /// Sets the result of `ncclCommGetAsyncError` for a communicator.
    ///
    /// # Panics
    ///
    /// It is not a communicator of this library, or freed.
    pub fn set_async_error(&self, comm: ncclComm_t, result: ncclResult_t) {
        // SAFETY: it may be called at any time, with any number.
        let known = unsafe { (self.controls.fake_nccl_set_async_error)(comm.addr(), result) };
        assert!(known, "{comm:?} is no communicator of this library");
    }

    /// Sets the text of `ncclGetLastError`, until the next refusal.
    ///
    /// # Panics
    ///
    /// The text contains a zero.
    pub fn set_last_error(&self, text: &str) {
        let text = CString::new(text).expect("there is no zero in the text");
        // SAFETY: the text ends with a zero, and lives until the call has returned.
        unsafe { (self.controls.fake_nccl_set_last_error)(text.as_ptr()) }
    }

    /// Sets this rank and the number of ranks in the next child of a split; several add up.
    /// Otherwise the child has its parent's.
    pub fn next_split(&self, rank: c_int, count: c_int) {
        // SAFETY: it may be called at any time, with any numbers.
        unsafe { (self.controls.fake_nccl_next_split)(rank, count) }
    }

    /// Sets a function to call before each call, on the calling thread and without locks: it may
    /// wait, or query the thread's state.
    ///
    /// # Panics
    ///
    /// During the call, if the function panics; this ends the program.
    pub fn before(&self, tell: fn(Function)) {
        static TELL: OnceLock<fn(Function)> = OnceLock::new();
        unsafe extern "C" fn call(name: *const u8, length: usize) {
            // SAFETY: the double passes this many bytes, which stay valid.
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

    /// Whether windows are supported, as they are initially. Otherwise a registration succeeds and
    /// returns NULL.
    pub fn set_windows(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_windows)(has) }
    }

    /// Whether communicators report one-sided operations of the host; initially not.
    pub fn set_rma(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_rma)(has) }
    }

    /// Whether communicators report that windows can be the targets of counted transfers; initially
    /// not.
    pub fn set_counted(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_counted)(has) }
    }

    /// Whether device communicators are supported; initially not.
    pub fn set_device_api(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_device_api)(has) }
    }

    /// Sets the reported network access of kernels, by NCCL's numbers: the best kind, the best
    /// within a rail, and the reach. Initially a host thread, none, and the same rail.
    pub fn set_gin(&self, way: c_int, railed: c_int, connections: c_int) {
        // SAFETY: it may be called at any time, with any numbers.
        unsafe { (self.controls.fake_nccl_set_gin)(way, railed, connections) }
    }

    /// Whether windows have addresses in multicast memory and endpoints, and counted transfers have
    /// teams of several ranks; initially not. Nothing is behind them: the addresses and numbers
    /// only encode the query.
    pub fn set_mapped(&self, has: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_set_mapped)(has) }
    }

    /// The resources handed out and not taken back.
    pub fn live(&self) -> Live {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.fake_nccl_live)() }
    }
}
