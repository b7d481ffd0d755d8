//! PyTorch's tensors, through Python.
//!
//! [`resolve`] reads a handful of attributes that torch implements in C, with names and data types
//! that are looked up once.

use std::sync::OnceLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::python::{self, Order, Shape, numbers, once, type_name};
use super::{Described, Tensor, TensorPlace};
use crate::error::{AdoptFault, Error, NotAdoptable, Site};
use crate::{DType, Device, Result};

const LIBRARY: &str = "torch";

/// Objects that are looked up once.
struct Torch {
    tensor: Py<PyType>,
    strided: Py<PyAny>,
    dtypes: Vec<(Py<PyAny>, DType)>,
    /// Maps a GPU's ordinal to the handle of its current stream; a torch without CUDA has none.
    current_stream: Option<Py<PyAny>>,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TORCH: OnceLock<Torch> = OnceLock::new();
        once(&TORCH, || Self::look_up(py))
    }

    fn look_up(py: Python<'_>) -> PyResult<Self> {
        let torch = py.import("torch")?;
        let mut dtypes = Vec::new();
        // An old torch lacks some.
        for dtype in DType::ALL {
            if let Some(object) = torch.getattr_opt(dtype.names().python)? {
                dtypes.push((object.unbind(), dtype));
            }
        }
        let current_stream = torch.getattr("_C")?.getattr_opt("_cuda_getCurrentRawStream")?;
        Ok(Self {
            tensor: torch.getattr("Tensor")?.extract::<Bound<'_, PyType>>()?.unbind(),
            strided: torch.getattr("strided")?.unbind(),
            dtypes,
            current_stream: current_stream.map(Bound::unbind),
        })
    }

    /// The element type of a `torch.dtype`.
    fn dtype(&self, object: &Bound<'_, PyAny>) -> Option<DType> {
        self.dtypes.iter().find(|(known, _)| known.is(object)).map(|(_, dtype)| *dtype)
    }

    fn stream(&self, py: Python<'_>, ordinal: u32) -> PyResult<usize> {
        match &self.current_stream {
            Some(current) => current.bind(py).call1((ordinal,))?.extract(),
            None => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("this torch was built without CUDA"))
            }
        }
    }

    fn describe(&self, x: &Bound<'_, PyAny>) -> PyResult<Result<Described, AdoptFault>> {
        let py = x.py();
        if !x.is_instance(self.tensor.bind(py))? {
            return Ok(Err(AdoptFault::NotATensor { found: type_name(x) }));
        }
        let layout = x.getattr(intern!(py, "layout"))?;
        if !layout.is(&self.strided) {
            return Ok(Err(AdoptFault::Sparse { layout: layout.to_string() }));
        }
        let found = x.getattr(intern!(py, "dtype"))?;
        let Some(dtype) = self.dtype(&found) else {
            return Ok(Err(AdoptFault::NoSuchType { found: found.to_string() }));
        };
        if dtype.part().is_some() && x.call_method0(intern!(py, "is_conj"))?.is_truthy()? {
            return Ok(Err(AdoptFault::Lazy { bit: "conjugate" }));
        }
        if x.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(Err(AdoptFault::Lazy { bit: "negative" }));
        }
        if x.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            return Ok(Err(AdoptFault::RequiresGrad));
        }
        let place = if x.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            let ordinal = x.call_method0(intern!(py, "get_device"))?.extract()?;
            TensorPlace::OnGpu { ordinal, stream: Some(self.stream(py, ordinal)?) }
        } else if x.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            TensorPlace::OnHost { pinned: false }
        } else {
            let found = x.getattr(intern!(py, "device"))?.to_string();
            return Ok(Err(AdoptFault::NoSuchDevice { found }));
        };
        let shape = numbers(&x.getattr(intern!(py, "shape"))?)?;
        let strides = match x.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
            true => None,
            false => Some(numbers(&x.call_method0(intern!(py, "stride"))?)?),
        };
        let address = x.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let library = LIBRARY;
        Ok(Ok(Described { library, address, dtype, shape, strides, place, writable: true }))
    }
}

/// Takes a `torch.Tensor`, on the host or on a GPU, without a copy. The tensor keeps the object,
/// and on a GPU records torch's current stream of this thread: our first use comes after all work
/// on it, and later work on it after our last use. Local; the host does not wait.
///
/// The object must keep its memory meanwhile. Python can take it away (`x.data = y`, `x.set_(y)`,
/// `storage.resize_(0)`), as it can from every extension.
///
/// # Errors
/// [`Error::NotAdoptable`], with the torch expression that fixes it: no tensor; sparse; a data type
/// that this library lacks; a pending conjugation or negation; a tensor that requires a gradient,
/// even a leaf; a device that is neither a GPU nor the host (`meta`); no elements; elements that are
/// not one contiguous block. [`Error::Other`]: torch cannot be imported, or raised an exception.
#[track_caller]
pub fn resolve(x: &Bound<'_, PyAny>) -> Result<Tensor<Py<PyAny>>> {
    let site = Site::caller();
    let described = Torch::get(x.py()).and_then(|torch| torch.describe(x));
    python::tensor(x, LIBRARY, described.map_err(Error::other)?, site)
}

/// Allocates a `torch.Tensor` of this shape in NCCL's memory, on a GPU or on the host. The data
/// type defaults to torch's (`torch.get_default_dtype()`); elements are zero. The memory is freed
/// once the tensor, its views, and the windows and buffers over it are gone.
///
/// With [`resolve`] and [`Tensor::nccl_on`], a tensor in C order becomes a buffer that can back a
/// window.
///
/// # Errors
/// The allocation fails; a data type that this torch lacks.
#[track_caller]
pub fn empty<'py, D: Device + 'static>(
    py: Python<'py>,
    device: &D,
    shape: impl Into<Shape>,
    dtype: Option<DType>,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    let torch = Torch::get(py)?;
    let module = py.import(intern!(py, "torch"))?;
    let default = || {
        let object = module.call_method0("get_default_dtype")?;
        self::dtype(&object).map_err(PyErr::from)
    };
    let dtype = dtype.map_or_else(default, Ok)?;
    let Some((object, _)) = torch.dtypes.iter().find(|(_, known)| *known == dtype) else {
        let fault = AdoptFault::NoSuchType { found: dtype.to_string() };
        return Err(
            Error::from(NotAdoptable::new("empty", fault, Site::caller()).of(LIBRARY)).into()
        );
    };
    // DLPack gained 8-bit floats late.
    let carried = if dtype.size() == 1 { DType::U8 } else { dtype };
    let memory = python::allocate(py, device, shape.into(), carried, order)?;
    let x = module.call_method1("from_dlpack", (memory,))?;
    if carried == dtype { Ok(x) } else { x.call_method1("view", (object,)) }
}

/// The data type of a `torch.dtype`.
///
/// # Errors
/// [`Error::NotAdoptable`]: NCCL lacks it.
#[track_caller]
pub fn dtype(object: &Bound<'_, PyAny>) -> Result<DType> {
    let torch = Torch::get(object.py()).map_err(Error::other)?;
    torch.dtype(object).ok_or_else(|| {
        let fault = AdoptFault::NoSuchType { found: object.to_string() };
        NotAdoptable::new("dtype", fault, Site::caller()).of(LIBRARY).into()
    })
}

/// torch's current stream of this thread on that GPU (`torch.cuda.current_stream`). Work enqueued
/// on it is in one order with torch's.
///
/// # Errors
/// A torch without CUDA; [`Error::NotAdoptable`] for CUDA's per-thread default stream.
#[cfg(feature = "cuda")]
#[track_caller]
pub fn current_stream<Tag>(
    py: Python<'_>,
    device: &crate::Cuda<Tag>,
) -> Result<crate::Stream<crate::Cuda<Tag>>> {
    let handle = Torch::get(py).and_then(|torch| torch.stream(py, device.ordinal()));
    // SAFETY: it is a stream of torch's, which uses primary contexts and never destroys its
    // streams.
    unsafe {
        crate::Stream::current(device, handle.map_err(Error::other)?, std::sync::Arc::new(()))
    }
}
