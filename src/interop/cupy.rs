//! CuPy's arrays, through Python.

use std::sync::{Arc, OnceLock};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::python::{self, Order, Shape, elements, numbers, once, type_name};
use super::{Described, Tensor, TensorPlace};
use crate::backend::Keeps;
use crate::error::{AdoptFault, Error, NotAdoptable, Site};
use crate::{Cuda, DType, Result, Stream};

const LIBRARY: &str = "cupy";

/// Objects that are looked up once.
struct Cupy {
    array: Py<PyType>,
    dtypes: Vec<(Py<PyAny>, DType)>,
    /// Maps a GPU's ordinal to its current stream.
    current_stream: Py<PyAny>,
}

impl Cupy {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static CUPY: OnceLock<Cupy> = OnceLock::new();
        once(&CUPY, || Self::look_up(py))
    }

    fn look_up(py: Python<'_>) -> PyResult<Self> {
        let cupy = py.import("cupy")?;
        // NumPy's own types are one object each.
        let named = cupy.getattr("dtype")?;
        // CuPy may lack some.
        let dtypes = DType::ALL.into_iter().filter_map(|dtype| {
            let object = named.call1((dtype.names().python,)).ok()?;
            Some((object.unbind(), dtype))
        });
        Ok(Self {
            dtypes: dtypes.collect(),
            array: cupy.getattr("ndarray")?.extract::<Bound<'_, PyType>>()?.unbind(),
            current_stream: cupy.getattr("cuda")?.getattr("get_current_stream")?.unbind(),
        })
    }

    /// The element type of a `cupy.dtype`: usually a known object, else one that is equal.
    fn dtype(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
        if let Some((_, dtype)) = self.dtypes.iter().find(|(known, _)| known.is(object)) {
            return Ok(Some(*dtype));
        }
        for (known, dtype) in &self.dtypes {
            if object.eq(known)? {
                return Ok(Some(*dtype));
            }
        }
        Ok(None)
    }

    /// CuPy's current stream on a GPU.
    fn stream<'py>(&self, py: Python<'py>, ordinal: u32) -> PyResult<Bound<'py, PyAny>> {
        self.current_stream.bind(py).call1((ordinal,))
    }

    /// The array, and its stream's object.
    fn describe(&self, x: &Bound<'_, PyAny>) -> PyResult<Result<(Described, Keeps), AdoptFault>> {
        let py = x.py();
        if !x.is_instance(self.array.bind(py))? {
            return Ok(Err(AdoptFault::NotATensor { found: type_name(x) }));
        }
        let found = x.getattr(intern!(py, "dtype"))?;
        let Some(dtype) = self.dtype(&found)? else {
            return Ok(Err(AdoptFault::NoSuchType { found: found.to_string() }));
        };
        let shape: Vec<usize> = numbers(&x.getattr(intern!(py, "shape"))?)?;
        let bytes: Vec<isize> = numbers(&x.getattr(intern!(py, "strides"))?)?;
        let strides = match elements(&shape, &bytes, dtype) {
            Ok(strides) => Some(strides),
            Err(fault) => return Ok(Err(fault)),
        };
        let data = x.getattr(intern!(py, "data"))?;
        let address = data.getattr(intern!(py, "ptr"))?.extract()?;
        let ordinal = data.getattr(intern!(py, "device_id"))?.extract()?;
        let object = self.stream(py, ordinal)?;
        let stream = Some(object.getattr(intern!(py, "ptr"))?.extract()?);
        let (library, place) = (LIBRARY, TensorPlace::OnGpu { ordinal, stream });
        let described =
            Described { library, address, dtype, shape, strides, place, writable: true };
        Ok(Ok((described, Arc::new(object.unbind()))))
    }
}

/// Takes a `cupy.ndarray`, without a copy. The tensor keeps the object and CuPy's current stream of
/// this thread: our first use comes after all work on it, and later work on it after our last use.
/// Local; the host does not wait.
///
/// # Errors
/// [`Error::NotAdoptable`], with the CuPy expression that fixes it: no array; a data type that NCCL
/// lacks; no elements; elements that are not one contiguous block. [`Error::Other`]: CuPy cannot be
/// imported, or raised an exception.
#[track_caller]
pub fn resolve(x: &Bound<'_, PyAny>) -> Result<Tensor<Py<PyAny>>> {
    let site = Site::caller();
    let described = Cupy::get(x.py()).and_then(|cupy| cupy.describe(x)).map_err(Error::other)?;
    let (described, stream) = match described {
        Ok((described, stream)) => (Ok(described), Some(stream)),
        Err(fault) => (Err(fault), None),
    };
    Ok(python::tensor(x, LIBRARY, described, site)?.keeping(stream))
}

/// Allocates a `cupy.ndarray` of this shape in NCCL's memory. The data type defaults to CuPy's,
/// `float64`; elements are zero. The memory is freed once the array, its views, and the windows and
/// buffers over it are gone.
///
/// With [`resolve`] and [`Tensor::nccl_on`], an array in C order becomes a buffer that can back a
/// window.
///
/// # Errors
/// The allocation fails; a data type that this CuPy lacks.
#[track_caller]
pub fn empty<'py, Tag: 'static>(
    py: Python<'py>,
    device: &Cuda<Tag>,
    shape: impl Into<Shape>,
    dtype: Option<DType>,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype.unwrap_or(DType::F64);
    let memory = python::allocate(py, device, shape.into(), dtype, order)?;
    py.import(intern!(py, "cupy"))?.call_method1(intern!(py, "from_dlpack"), (memory,))
}

/// The data type of a `cupy.dtype`.
///
/// # Errors
/// [`Error::NotAdoptable`]: NCCL lacks it.
#[track_caller]
pub fn dtype(object: &Bound<'_, PyAny>) -> Result<DType> {
    let found = Cupy::get(object.py()).and_then(|cupy| cupy.dtype(object));
    found.map_err(Error::other)?.ok_or_else(|| {
        let fault = AdoptFault::NoSuchType { found: object.to_string() };
        NotAdoptable::new("dtype", fault, Site::caller()).of(LIBRARY).into()
    })
}

/// CuPy's current stream of this thread on that GPU (`cupy.cuda.get_current_stream`), whose object
/// is kept. Work enqueued on it is in one order with CuPy's.
///
/// # Errors
/// [`Error::NotAdoptable`] for CUDA's per-thread default stream.
#[track_caller]
pub fn current_stream<Tag>(py: Python<'_>, device: &Cuda<Tag>) -> Result<Stream<Cuda<Tag>>> {
    let found = Cupy::get(py).and_then(|cupy| {
        let stream = cupy.stream(py, device.ordinal())?;
        Ok((stream.getattr(intern!(py, "ptr"))?.extract()?, stream.unbind()))
    });
    let (handle, object): (usize, Py<PyAny>) = found.map_err(Error::other)?;
    // SAFETY: CuPy uses primary contexts, and a stream of its own lives as long as its object.
    unsafe { Stream::current(device, handle, Arc::new(object)) }
}
