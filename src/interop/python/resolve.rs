//! Objects of any library.

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::pointer;
use crate::error::{AdoptFault, Error, NotAdoptable, Site};
use crate::interop::dlpack::{
    self, ConsumerStream, DLManagedTensor, DLManagedTensorVersioned, Managed, ManagedTensor,
};
use crate::interop::{Described, Tensor, TensorPlace};
use crate::{DType, Result};

/// Keeps the memory of an object.
///
/// ```ignore
/// // An array of any library, for as long as this rank needs it.
/// let tensor: Tensor<Foreign> = python::resolve(x)?;
/// let buffer: DynBuffer<Host, Adopted<Foreign>> = tensor.on(&device)?;
/// ```
#[derive(Debug)]
pub enum Foreign {
    /// The object, which has a `__cuda_array_interface__`.
    Object(Py<PyAny>),
    /// The result of its `__dlpack__`.
    Managed(Managed),
}

/// An object with `__dlpack__`, or with `__cuda_array_interface__` version 3, as a tensor; nothing
/// is copied. Local; the host does not wait.
///
/// With DLPack, GPU memory is ordered by CUDA's legacy default stream: its library makes that
/// stream wait for its own work, our first use comes after that, and after a loan, later work on it
/// comes after our last use. With `__cuda_array_interface__` it is ordered by the stream that the
/// object names.
///
/// # Errors
/// [`Error::NotAdoptable`] if it has neither or cannot be used; exceptions that its methods raise.
#[track_caller]
pub fn resolve(x: &Bound<'_, PyAny>) -> Result<Tensor<Foreign>> {
    let site = Site::caller();
    let py = x.py();
    let method = x.getattr_opt(intern!(py, "__dlpack__")).map_err(Error::other)?;
    if let Some(method) = method {
        return by_dlpack(x, &method);
    }
    by_cuda(x, site)
}

/// A tensor of a library's own object, which keeps the memory.
pub(in crate::interop) fn tensor(
    x: &Bound<'_, PyAny>,
    library: &'static str,
    described: Result<Described, AdoptFault>,
    site: Site,
) -> Result<Tensor<Py<PyAny>>> {
    let refused = |fault| Error::from(NotAdoptable::new("resolve", fault, site).of(library));
    let described = described.map_err(refused)?;
    // SAFETY: a library describes its own object truthfully while that lives. `resolve` requires
    // that Python does not give the object other memory meanwhile, and other uses are Python's
    // responsibility. The stream is the library's current one.
    let tensor = unsafe { Tensor::new(described, x.clone().unbind()) };
    tensor.map_err(|error| match error {
        Error::NotAdoptable(it) => refused(it.fault),
        other => other,
    })
}

fn by_dlpack(x: &Bound<'_, PyAny>, method: &Bound<'_, PyAny>) -> Result<Tensor<Foreign>> {
    const CUDA: [i32; 2] = [2, 13];
    let (capsule, stream) = (|| {
        let device: (i32, i32) = x.call_method0("__dlpack_device__")?.extract()?;
        let options = PyDict::new(x.py());
        let is_cuda = CUDA.contains(&device.0);
        let stream = if is_cuda { ConsumerStream::LEGACY } else { ConsumerStream::Unordered };
        if is_cuda {
            options.set_item("stream", stream.to_protocol())?;
        }
        options.set_item("max_version", (1, 1))?;
        let capsule = match method.call((), Some(&options)) {
            // A producer from before 1.0.
            Err(error) if error.is_instance_of::<PyTypeError>(x.py()) => {
                options.del_item("max_version")?;
                method.call((), Some(&options))
            }
            given => given,
        }?;
        Ok::<_, PyErr>((capsule.extract::<Bound<'_, PyCapsule>>()?, stream))
    })()
    .map_err(Error::other)?;
    take::<DLManagedTensorVersioned>(
        &capsule,
        c"dltensor_versioned",
        c"used_dltensor_versioned",
        stream,
    )
    .or_else(|| take::<DLManagedTensor>(&capsule, c"dltensor", c"used_dltensor", stream))
    .unwrap_or_else(|| {
        let says = "its `__dlpack__` gave a capsule that is no tensor, or was used already";
        Err(Error::other(PyTypeError::new_err(says)))
    })
}

/// Takes a capsule's tensor, if it has one of that name.
fn take<F: ManagedTensor>(
    capsule: &Bound<'_, PyCapsule>,
    name: &'static CStr,
    used: &'static CStr,
    stream: ConsumerStream,
) -> Option<Result<Tensor<Foreign>>> {
    let tensor: NonNull<F> = pointer(capsule, Some(name)).ok()?;
    // SAFETY: a capsule, and a static name.
    let renamed = unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
    if renamed != 0 {
        return Some(Err(Error::other(PyErr::fetch(capsule.py()))));
    }
    // SAFETY: by the protocol it is a managed tensor, and ours since the capsule was renamed. Its
    // producer was asked for that stream, which is never destroyed. Any thread may call deleters of
    // Python's libraries.
    let tensor = unsafe { dlpack::import_on(tensor, stream) };
    Some(tensor.map(|tensor| tensor.map_owner(Foreign::Managed)))
}

fn by_cuda(x: &Bound<'_, PyAny>, site: Site) -> Result<Tensor<Foreign>> {
    let interface =
        x.getattr_opt(intern!(x.py(), "__cuda_array_interface__")).map_err(Error::other)?;
    let described = match interface {
        None => Ok(Err(AdoptFault::NotATensor { found: type_name(x) })),
        Some(interface) => of_interface(&interface),
    };
    let library = "__cuda_array_interface__";
    Ok(tensor(x, library, described.map_err(Error::other)?, site)?.map_owner(Foreign::Object))
}

fn of_interface(interface: &Bound<'_, PyAny>) -> PyResult<Result<Described, AdoptFault>> {
    let entry = |name: &str| match interface.extract::<Bound<'_, PyDict>>()?.get_item(name)? {
        Some(value) if !value.is_none() => Ok::<_, PyErr>(Some(value)),
        _ => Ok(None),
    };
    let missing =
        |name: &str| PyTypeError::new_err(format!("`__cuda_array_interface__` lacks {name:?}"));
    let need = |name: &str| entry(name)?.ok_or_else(|| missing(name));
    if entry("mask")?.is_some() {
        return Ok(Err(AdoptFault::NotATensor { found: "an array with a mask".to_owned() }));
    }
    let typestr = need("typestr")?.extract::<String>()?;
    let Some(dtype) = of_typestr(&typestr) else {
        return Ok(Err(AdoptFault::NoSuchType { found: typestr }));
    };
    let shape: Vec<usize> = numbers(&need("shape")?)?;
    let strides = match entry("strides")? {
        None => None,
        Some(bytes) => match elements(&shape, &numbers(&bytes)?, dtype) {
            Ok(strides) => Some(strides),
            Err(fault) => return Ok(Err(fault)),
        },
    };
    let (address, read_only): (usize, bool) = need("data")?.extract()?;
    if address == 0 {
        return Ok(Err(if shape.contains(&0) { AdoptFault::Empty } else { AdoptFault::Null }));
    }
    let place = place(address, entry("stream")?.map(|stream| stream.extract()).transpose()?)?;
    let (library, writable) = ("__cuda_array_interface__", !read_only);
    Ok(Ok(Described { library, address, dtype, shape, strides, place, writable }))
}

#[cfg(feature = "cuda")]
fn place(address: usize, stream: Option<usize>) -> Result<TensorPlace> {
    Ok(TensorPlace::OnGpu { ordinal: crate::cuda::ordinal_of(address)?, stream })
}

#[cfg(not(feature = "cuda"))]
fn place(_: usize, _: Option<usize>) -> Result<TensorPlace> {
    Err(Error::other("memory of a GPU takes the feature `cuda`"))
}

/// Strides in elements; `None` if one is not a multiple of the element size.
pub(in crate::interop) fn elements(
    shape: &[usize],
    bytes: &[isize],
    dtype: DType,
) -> Result<Vec<isize>, AdoptFault> {
    let size = dtype.size() as isize;
    // A dimension of one element has no stride.
    let fits = shape.iter().zip(bytes).all(|(&n, stride)| n <= 1 || stride % size == 0);
    let strides = bytes.iter().map(|stride| stride / size).collect();
    if fits { Ok(strides) } else { Err(AdoptFault::Strided { shape: shape.to_vec(), strides }) }
}

/// The data type for an array interface's type string, in this machine's byte order.
fn of_typestr(typestr: &str) -> Option<DType> {
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let mut rest = typestr.chars();
    let order = rest.next()?;
    let dtype = dtype_of(rest.next()?, rest.as_str().parse().ok()?)?;
    (order == native || dtype.size() == 1).then_some(dtype)
}

/// The data type for NumPy's kind and size in bytes.
pub(in crate::interop) fn dtype_of(kind: char, size: usize) -> Option<DType> {
    let mut known = DType::ALL.into_iter();
    known.find(|dtype| dtype.kind() == Some(kind) && dtype.size() == size)
}

/// The elements of a tuple of numbers.
pub(in crate::interop) fn numbers<N: TryFrom<i64>>(tuple: &Bound<'_, PyAny>) -> PyResult<Vec<N>> {
    let number = |number: Borrowed<'_, '_, PyAny>| {
        let number: i64 = number.extract()?;
        let fits = N::try_from(number).ok();
        fits.ok_or_else(|| PyValueError::new_err(format!("{number} is no number of elements")))
    };
    tuple.extract::<Bound<'_, PyTuple>>()?.iter_borrowed().map(number).collect()
}

/// For messages: `builtins.list`.
pub(in crate::interop) fn type_name(x: &Bound<'_, PyAny>) -> String {
    let name = x.get_type().fully_qualified_name().map(|name| name.to_string());
    name.map_or_else(|_| "another object".to_owned(), |name| format!("an object of `{name}`"))
}
