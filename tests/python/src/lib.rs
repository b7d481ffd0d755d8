//! The functions that `cases.py` and `gpu.py` call: ranks, and their operations on arrays of
//! Python's libraries.

mod comm;
mod held;

use std::sync::Mutex;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use typed_nccl::interop::python::{self, Order, Shape};
use typed_nccl::interop::{Tensor, TensorPlace, cupy, numpy, torch};
use typed_nccl::{Cuda, DType, Error, Host};

#[pymodule]
mod typed_nccl_tests {
    #[pymodule_export]
    use super::comm::Comm;
    #[pymodule_export]
    use super::held::{Held, Window};
    #[pymodule_export]
    use super::{
        Resolved, Seat, claimed_until_taken, describe, exported, kept, resolve, resolve_loop,
        seat_at, seat_from_env, seats,
    };
}

/// A place in a communicator.
#[pyclass(frozen)]
struct Seat(Mutex<Option<typed_nccl::Seat>>);

impl From<typed_nccl::Seat> for Seat {
    fn from(seat: typed_nccl::Seat) -> Self {
        Self(Mutex::new(Some(seat)))
    }
}

/// Seats of ranks in this process.
#[pyfunction]
fn seats(n: usize) -> Vec<Seat> {
    typed_nccl::Seat::local(n).into_iter().map(Seat::from).collect()
}

/// A seat for ranks that meet through a file.
#[pyfunction]
fn seat_at(path: &str, rank: usize, size: usize) -> PyResult<Seat> {
    Ok(typed_nccl::Seat::file(path, rank, size)?.into())
}

/// The seat that a launcher gives.
#[pyfunction]
fn seat_from_env() -> PyResult<Seat> {
    Ok(typed_nccl::Seat::from_env()?.into())
}

type Object = Tensor<Py<PyAny>>;

/// An array of that library.
fn named(x: &Bound<'_, PyAny>, library: &str) -> PyResult<Object> {
    Ok(match library {
        "torch" => torch::resolve(x)?,
        "numpy" => numpy::resolve(x)?,
        "cupy" => cupy::resolve(x)?,
        other => return Err(PyValueError::new_err(format!("no library {other:?}"))),
    })
}

fn dtype_named(name: &str) -> PyResult<DType> {
    let known = DType::ALL.into_iter().find(|dtype| dtype.to_string() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("no data type {name:?}")))
}

/// The results of nccl4py's resolvers: the address, the number of elements, their type, and the
/// GPU, if any.
#[pyfunction]
fn resolve(x: &Bound<'_, PyAny>, library: &str) -> PyResult<(usize, usize, Option<u8>, Option<u32>)> {
    let x = named(x, library)?;
    let ordinal = match x.place() {
        TensorPlace::OnGpu { ordinal, .. } => Some(ordinal),
        _ => None,
    };
    Ok((x.address(), x.len(), x.dtype().nccl_number(), ordinal))
}

/// A resolved array.
#[pyclass(frozen)]
struct Resolved(#[expect(dead_code, reason = "only kept")] Object);

/// Resolves an array, and keeps the tensor.
#[pyfunction]
fn kept(x: &Bound<'_, PyAny>, library: &str) -> PyResult<Resolved> {
    Ok(Resolved(named(x, library)?))
}

/// Nanoseconds of one `resolve` within Rust.
#[pyfunction]
fn resolve_loop(x: &Bound<'_, PyAny>, library: &str, n: u32) -> PyResult<f64> {
    let resolve = match library {
        "torch" => torch::resolve,
        "numpy" => numpy::resolve,
        _ => cupy::resolve,
    };
    let start = Instant::now();
    for _ in 0..n {
        std::hint::black_box(resolve(x)?);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(n))
}

/// Everything known about an array, as text; without a library, through DLPack or an array
/// interface.
#[pyfunction]
#[pyo3(signature = (x, library = None))]
fn describe<'py>(
    x: &Bound<'py, PyAny>,
    library: Option<&str>,
) -> PyResult<(usize, String, Vec<usize>, Option<Vec<isize>>, String)> {
    fn known<O>(x: &Tensor<O>) -> (usize, String, Vec<usize>, Option<Vec<isize>>, String) {
        let (dtype, place) = (x.dtype().to_string(), format!("{:?}", x.place()));
        (x.address(), dtype, x.shape().to_vec(), x.strides().map(<[_]>::to_vec), place)
    }
    Ok(match library {
        Some(library) => known(&named(x, library)?),
        None => known(&python::resolve(x)?),
    })
}

/// Our memory, with the numbers from 0 on, as an object of Python's.
#[pyfunction]
#[pyo3(signature = (shape, order = Order::C, gpu = None))]
fn exported(
    py: Python<'_>,
    shape: Vec<usize>,
    #[pyo3(from_py_with = Order::from_python)] order: Order,
    gpu: Option<u32>,
) -> PyResult<Bound<'_, PyAny>> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|n: usize| n as f32).collect();
    let shape = Shape::from(shape);
    match gpu {
        None => python::export(py, Host::any(0)?.from_slice(&values)?, shape, order),
        Some(gpu) => python::export(py, Cuda::any(gpu)?.from_slice(&values)?, shape, order),
    }
}

/// Exports an array of `f32` that work is under way on, and lends it anew before and after the
/// object is taken. The refusal, and the sum.
#[pyfunction]
fn claimed_until_taken(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<(String, f32)> {
    let host = Host::any(0)?;
    let mut ours = numpy::resolve(x)?.on(&host)?;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    host.stream()?.launch(&mut ours.slice_mut(..).typed::<f32>()?, move |x, ()| {
        // An error: the sender is gone, which says the same.
        let _ = wait.lock().expect("nobody panics").recv();
        x.fill(2.0);
    })?;
    let len = x.len()?;
    let object = python::export(py, ours, [len], Order::C)?;
    let sum = || {
        let x = numpy::resolve(x)?;
        let sum = host.lend(&x, |x| Ok(x.typed::<f32>()?.to_vec()?.iter().sum::<f32>()));
        Ok::<_, PyErr>(sum)
    };
    let early = sum()?;
    drop(go);
    object.getattr("__array_interface__")?;
    let refusal = early.err().map(|error: Error| error.to_string()).unwrap_or_default();
    Ok((refusal, sum()??))
}
