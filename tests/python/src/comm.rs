//! A rank.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use typed_nccl::interop::python::{self, Order, Shape};
use typed_nccl::interop::{cupy, numpy, torch};
use typed_nccl::{AnyDevice, Buffer, CommConfig, Communicator, Cuda, Device, Host, Result, Sum};

use super::held::{Held, Window};
use super::{Object, Seat, dtype_named, named};

pub(super) type OnHost = Host<AnyDevice>;
pub(super) type OnCuda = Cuda<AnyDevice>;

/// A communicator of threads of this process, or of GPUs.
#[pyclass(frozen)]
pub(super) struct Comm(pub(super) Kind);

pub(super) enum Kind {
    Host(Mutex<Option<Communicator<OnHost>>>),
    Cuda(Mutex<Option<Communicator<OnCuda>>>),
}

/// Runs `$body` with the communicator, without the interpreter's lock.
macro_rules! on {
    ($py:expr, $kind:expr, |$comm:ident| $body:expr) => {
        match $kind {
            Kind::Host(comm) => $py.detach(|| {
                let mut $comm = locked(comm);
                let $comm = $comm.as_mut().ok_or_else(over)?;
                $body
            }),
            Kind::Cuda(comm) => $py.detach(|| {
                let mut $comm = locked(comm);
                let $comm = $comm.as_mut().ok_or_else(over)?;
                $body
            }),
        }
    };
}

pub(super) fn locked<T>(it: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn over() -> PyErr {
    PyRuntimeError::new_err("the communicator is over")
}

fn in_place<D: Device>(comm: &Communicator<D>, x: &mut Object) -> Result<()> {
    comm.device().clone().lend(x, |x| comm.all_reduce_in_place(x, Sum))
}

fn into<D: Device>(comm: &Communicator<D>, x: &Object, y: &mut Object) -> Result<()> {
    comm.device().clone().lend((x, y), |(x, y)| comm.all_reduce(x, y, Sum))
}

/// Without any ordering with the streams of the array's library.
fn unordered<D: Device>(comm: &Communicator<D>, x: &Object) -> Result<()> {
    // SAFETY: the case keeps the array.
    let mut x =
        unsafe { Buffer::<f32, D, _>::from_raw(comm.device(), x.address() as *mut f32, x.len()) }?;
    comm.all_reduce_in_place(&mut x, Sum)
}

fn connect<D: Device>(seat: typed_nccl::Seat, device: D, seconds: u64) -> Result<Communicator<D>> {
    let config = CommConfig::builder().deadline(Duration::from_secs(seconds)).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

#[pymethods]
impl Comm {
    #[new]
    #[pyo3(signature = (seat, device = "host", ordinal = 0, seconds = 20))]
    fn new(
        py: Python<'_>,
        seat: &Seat,
        device: &str,
        ordinal: u32,
        seconds: u64,
    ) -> PyResult<Self> {
        let seat = locked(&seat.0).take();
        let seat = seat.ok_or_else(|| PyValueError::new_err("the seat was taken"))?;
        Ok(Self(match device {
            "host" => Kind::Host(Mutex::new(Some(
                py.detach(|| connect(seat, OnHost::any(ordinal)?, seconds))?,
            ))),
            "cuda" => Kind::Cuda(Mutex::new(Some(
                py.detach(|| connect(seat, OnCuda::any(ordinal)?, seconds))?,
            ))),
            other => return Err(PyValueError::new_err(format!("no device {other:?}"))),
        }))
    }

    /// Sums an array over the ranks, in its own memory.
    fn all_reduce_(&self, x: &Bound<'_, PyAny>, library: &str) -> PyResult<()> {
        let py = x.py();
        let mut x = named(x, library)?;
        on!(py, &self.0, |comm| Ok(in_place(comm, &mut x)?))
    }

    /// Sums an array over the ranks into another one.
    fn all_reduce(
        &self,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        library: &str,
    ) -> PyResult<()> {
        let py = x.py();
        let (x, mut y) = (named(x, library)?, named(y, library)?);
        on!(py, &self.0, |comm| Ok(into(comm, &x, &mut y)?))
    }

    /// `all_reduce_` of an object with `__dlpack__` or an array interface.
    fn all_reduce_any_(&self, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = x.py();
        let mut x = python::resolve(x)?;
        on!(py, &self.0, |comm| {
            let device = comm.device().clone();
            Ok(device.lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))?)
        })
    }

    /// `all_reduce_` without the ordering.
    fn all_reduce_unordered_(&self, x: &Bound<'_, PyAny>, library: &str) -> PyResult<()> {
        let py = x.py();
        let x = named(x, library)?;
        on!(py, &self.0, |comm| Ok(unordered(comm, &x)?))
    }

    /// `all_reduce_` on the library's own current stream.
    fn all_reduce_on_theirs_(&self, x: &Bound<'_, PyAny>, library: &str) -> PyResult<()> {
        let py = x.py();
        let Kind::Cuda(comm) = &self.0 else {
            return Err(PyValueError::new_err("the host has no streams of other libraries"));
        };
        let device = locked(comm).as_ref().ok_or_else(over)?.device().clone();
        let stream = match library {
            "torch" => torch::current_stream(py, &device)?,
            _ => cupy::current_stream(py, &device)?,
        };
        let mut x = named(x, library)?;
        Ok(py.detach(move || {
            let (comm, stream) = (locked(comm), stream);
            let comm = comm.as_ref().expect("there a moment ago");
            device.lend(&mut x, |x| comm.on(&stream).all_reduce_in_place(x, Sum))
        })?)
    }

    /// Through a buffer and its type; returns the array's object.
    #[pyo3(signature = (x, library, dtype = "f32"))]
    fn all_reduce_typed(
        &self,
        x: &Bound<'_, PyAny>,
        library: &str,
        dtype: &str,
    ) -> PyResult<Py<PyAny>> {
        let (py, x) = (x.py(), named(x, library)?);
        on!(py, &self.0, |comm| {
            let x = x.on(comm.device())?;
            Ok(match dtype {
                "f64" => {
                    let mut x = x.typed::<f64>()?;
                    comm.all_reduce_in_place(&mut x, Sum)?;
                    x.into_inner()?
                }
                _ => {
                    let mut x = x.typed::<f32>()?;
                    comm.all_reduce_in_place(&mut x, Sum)?;
                    x.into_inner()?
                }
            })
        })
    }

    /// A buffer over an array.
    fn hold(&self, x: &Bound<'_, PyAny>, library: &str) -> PyResult<Held> {
        let (py, x) = (x.py(), named(x, library)?);
        match &self.0 {
            Kind::Host(comm) => {
                let device = locked(comm).as_ref().ok_or_else(over)?.device().clone();
                py.detach(|| Ok(Held::host(x.on(&device)?)))
            }
            Kind::Cuda(comm) => {
                let device = locked(comm).as_ref().ok_or_else(over)?.device().clone();
                py.detach(|| Ok(Held::cuda(x.on(&device)?)))
            }
        }
    }

    /// A library's array in NCCL's memory.
    #[pyo3(signature = (library, shape, dtype = None, order = Order::C))]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        library: &str,
        #[pyo3(from_py_with = Shape::from_python)] shape: Shape,
        dtype: Option<&str>,
        #[pyo3(from_py_with = Order::from_python)] order: Order,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = dtype.map(dtype_named).transpose()?;
        match &self.0 {
            Kind::Host(comm) => {
                let device = locked(comm).as_ref().ok_or_else(over)?.device().clone();
                match library {
                    "torch" => torch::empty(py, &device, shape, dtype, order),
                    _ => numpy::empty(py, &device, shape, dtype, order),
                }
            }
            Kind::Cuda(comm) => {
                let device = locked(comm).as_ref().ok_or_else(over)?.device().clone();
                match library {
                    "torch" => torch::empty(py, &device, shape, dtype, order),
                    "cupy" => cupy::empty(py, &device, shape, dtype, order),
                    _ => numpy::empty(py, &device, shape, dtype, order),
                }
            }
        }
    }

    /// A symmetric window over an array of `empty`'s.
    fn window(&self, x: &Bound<'_, PyAny>, library: &str) -> PyResult<Window> {
        let (py, x) = (x.py(), named(x, library)?);
        match &self.0 {
            Kind::Host(comm) => py.detach(|| {
                let mut comm = locked(comm);
                let comm = comm.as_mut().ok_or_else(over)?;
                let x = x.nccl_on(comm.device())?.typed::<f32>()?;
                Ok(Window::host(comm.register_window(x)?))
            }),
            Kind::Cuda(comm) => py.detach(|| {
                let mut comm = locked(comm);
                let comm = comm.as_mut().ok_or_else(over)?;
                let x = x.nccl_on(comm.device())?.typed::<f32>()?;
                Ok(Window::cuda(comm.register_window(x)?))
            }),
        }
    }

    /// Puts elements of a window into that of a peer, and raises a signal there.
    fn put_signal(
        &self,
        py: Python<'_>,
        window: &Window,
        from: (usize, usize),
        peer: usize,
        to: usize,
    ) -> PyResult<()> {
        window.put_signal(py, &self.0, from.0..from.1, peer, to)
    }

    /// Waits for a peer's signal; the host waits too.
    fn wait_signal(&self, py: Python<'_>, peer: usize) -> PyResult<()> {
        on!(py, &self.0, |comm| {
            comm.wait_signal(peer)?;
            Ok(comm.stream().sync()?)
        })
    }

    /// Closes a window.
    fn close(&self, py: Python<'_>, window: &Window) -> PyResult<()> {
        window.close(py, &self.0)
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        on!(py, &self.0, |comm| Ok(comm.barrier()?))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        on!(py, &self.0, |comm| Ok(comm.stream().sync()?))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        match &self.0 {
            Kind::Host(comm) => py.detach(|| Ok(locked(comm).take().ok_or_else(over)?.finish()?)),
            Kind::Cuda(comm) => py.detach(|| Ok(locked(comm).take().ok_or_else(over)?.finish()?)),
        }
    }

    /// This rank, and the number of ranks.
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        on!(py, &self.0, |comm| Ok((comm.rank().index(), comm.size())))
    }
}
