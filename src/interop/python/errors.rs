//! Our errors as exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};

use super::releases::attach;
use crate::error::{AdoptFault, Error, Failed};

/// A refusal is a `ValueError` (an object that is no tensor, a `TypeError`), a failed allocation a
/// `MemoryError`, anything else a `RuntimeError`, each with the error's sentence. An exception that
/// Python raised ([`Error::other`]) is passed on.
impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let says = error.to_string();
        match &error {
            Error::Other(other) => match other.source.downcast_ref::<Self>() {
                Some(raised) => attach(|py| raised.clone_ref(py)),
                None => PyRuntimeError::new_err(says),
            },
            Error::NoMemory(_) => PyMemoryError::new_err(says),
            Error::NotAdoptable(it) if matches!(it.fault, AdoptFault::NotATensor { .. }) => {
                PyTypeError::new_err(says)
            }
            refusal if refusal.is_refusal() => PyValueError::new_err(says),
            _ => PyRuntimeError::new_err(says),
        }
    }
}

/// The value is dropped.
impl<T> From<Failed<T>> for PyErr {
    fn from(failed: Failed<T>) -> Self {
        failed.error.into()
    }
}
