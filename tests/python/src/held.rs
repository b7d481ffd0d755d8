//! Objects that hold an array's memory.

use std::ops::Range;
use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use typed_nccl::{Adopted, DynBuffer};

use super::comm::{Kind, OnCuda, OnHost, locked, over};

type Buffer<D> = DynBuffer<D, Adopted<Py<PyAny>>>;

/// A buffer over an array.
#[pyclass(frozen)]
pub(super) struct Held(Mutex<Option<HeldBy>>);

enum HeldBy {
    Host(Buffer<OnHost>),
    Cuda(Buffer<OnCuda>),
}

impl Held {
    pub(super) fn host(buffer: Buffer<OnHost>) -> Self {
        Self(Mutex::new(Some(HeldBy::Host(buffer))))
    }

    pub(super) fn cuda(buffer: Buffer<OnCuda>) -> Self {
        Self(Mutex::new(Some(HeldBy::Cuda(buffer))))
    }
}

#[pymethods]
impl Held {
    /// Returns the array's object.
    fn into_inner(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        py.detach(|| match locked(&self.0).take() {
            Some(HeldBy::Host(buffer)) => Ok(buffer.into_inner()?),
            Some(HeldBy::Cuda(buffer)) => Ok(buffer.into_inner()?),
            None => Err(PyRuntimeError::new_err("the object was given back")),
        })
    }
}

/// A symmetric window over an array.
#[pyclass(frozen)]
pub(super) struct Window(Mutex<Option<Over>>);

enum Over {
    Host(typed_nccl::Window<f32, OnHost>),
    Cuda(typed_nccl::Window<f32, OnCuda>),
}

impl Window {
    pub(super) fn host(window: typed_nccl::Window<f32, OnHost>) -> Self {
        Self(Mutex::new(Some(Over::Host(window))))
    }

    pub(super) fn cuda(window: typed_nccl::Window<f32, OnCuda>) -> Self {
        Self(Mutex::new(Some(Over::Cuda(window))))
    }

    pub(super) fn put_signal(
        &self,
        py: Python<'_>,
        comm: &Kind,
        from: Range<usize>,
        peer: usize,
        to: usize,
    ) -> PyResult<()> {
        py.detach(|| {
            let window = locked(&self.0);
            match (comm, window.as_ref()) {
                (Kind::Host(comm), Some(Over::Host(window))) => {
                    let comm = locked(comm);
                    let comm = comm.as_ref().ok_or_else(over)?;
                    Ok(comm.put_signal(window.slice(from), peer, window.at(to))?)
                }
                (Kind::Cuda(comm), Some(Over::Cuda(window))) => {
                    let comm = locked(comm);
                    let comm = comm.as_ref().ok_or_else(over)?;
                    Ok(comm.put_signal(window.slice(from), peer, window.at(to))?)
                }
                _ => Err(PyRuntimeError::new_err("the window is closed, or another device's")),
            }
        })
    }

    pub(super) fn close(&self, py: Python<'_>, comm: &Kind) -> PyResult<()> {
        py.detach(|| match (comm, locked(&self.0).take()) {
            (Kind::Host(comm), Some(Over::Host(window))) => {
                locked(comm).as_mut().ok_or_else(over)?.close(window)?;
                Ok(())
            }
            (Kind::Cuda(comm), Some(Over::Cuda(window))) => {
                locked(comm).as_mut().ok_or_else(over)?.close(window)?;
                Ok(())
            }
            _ => Err(PyRuntimeError::new_err("the window is closed, or another device's")),
        })
    }
}
