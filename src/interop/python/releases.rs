//! What releases of pyo3 call otherwise, so that an extension can choose among them.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3::{PyErr, ffi};

/// Names since 0.26, and those before.
///
/// A method of pyo3's own is found before a trait's of the same name. So the trait's is called with
/// a release that lacks it only, and calls what that one has.
#[allow(dead_code, reason = "half of them are unused with each release")]
trait Names: Sized {
    fn detach<R: Send>(self, work: impl FnOnce() -> R + Send) -> R;
    fn allow_threads<R: Send>(self, work: impl FnOnce() -> R + Send) -> R;
    fn attach<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R;
    fn with_gil<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R;
}

#[allow(deprecated, reason = "it is, in some releases")]
impl Names for Python<'_> {
    fn detach<R: Send>(self, work: impl FnOnce() -> R + Send) -> R {
        self.allow_threads(work)
    }

    fn allow_threads<R: Send>(self, work: impl FnOnce() -> R + Send) -> R {
        self.detach(work)
    }

    fn attach<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
        Python::with_gil(work)
    }

    fn with_gil<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
        Python::attach(work)
    }
}

/// Releases the interpreter meanwhile.
pub(super) fn detach<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    py.detach(work)
}

/// Holds the interpreter meanwhile.
pub(super) fn attach<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    Python::attach(work)
}

/// What is looked up once. pyo3's own cell changed its name. Python code runs meanwhile and may
/// let another thread on, so nothing is locked: if two look it up, one result is kept.
#[allow(dead_code, reason = "unused without a library's module")]
pub(in crate::interop) fn once<T: Send + Sync>(
    cell: &'static OnceLock<T>,
    look_up: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'static T> {
    match cell.get() {
        Some(found) => Ok(found),
        None => {
            let found = look_up()?;
            Ok(cell.get_or_init(|| found))
        }
    }
}

/// A capsule's pointer, if it has one of that name; `None` is a name too.
pub(in crate::interop) fn pointer<T>(
    capsule: &Bound<'_, PyCapsule>,
    name: Option<&CStr>,
) -> PyResult<NonNull<T>> {
    let name = name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: a capsule, and a name that lives as long as the call.
    let found = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
    NonNull::new(found.cast()).ok_or_else(|| PyErr::fetch(capsule.py()))
}

/// A new capsule.
///
/// # Safety
/// The destructor may be called on any thread, with the pointer as it is then.
pub(super) unsafe fn capsule<'py, T>(
    py: Python<'py>,
    pointer: NonNull<T>,
    name: &'static CStr,
    destructor: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyCapsule>> {
    // SAFETY: the pointer is not null, the name is never freed; the rest is the caller's promise.
    let made =
        unsafe { ffi::PyCapsule_New(pointer.as_ptr().cast(), name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an exception.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    Ok(made.extract()?)
}
