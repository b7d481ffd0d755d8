//! Another library: a producer and a consumer of tensors.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use typed_nccl::error::AdoptFault;
use typed_nccl::interop::Tensor;
use typed_nccl::interop::dlpack::{
    self, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    Managed, ManagedTensor,
};
use typed_nccl::{Error, Result};

use super::CPU;

pub(crate) fn named(code: u8, bits: u8, lanes: u16) -> DLDataType {
    DLDataType { code, bits, lanes }
}

/// A tensor of another library.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    /// Aligned memory, of 8 bytes each.
    pub(crate) memory: Vec<u64>,
    /// The address, if the data is elsewhere.
    pub(crate) data: Option<usize>,
    pub(crate) offset: u64,
    pub(crate) dtype: DLDataType,
    pub(crate) device: DLDevice,
    pub(crate) axes: Option<i32>,
    pub(crate) shape: Option<Vec<i64>>,
    pub(crate) strides: Option<Vec<i64>>,
    pub(crate) flags: u64,
    pub(crate) version: (u32, u32),
    pub(crate) deletes: bool,
}

impl Foreign {
    pub(crate) fn new(dtype: DLDataType, shape: &[i64], memory: Vec<u64>) -> Self {
        Self {
            memory,
            data: None,
            offset: 0,
            dtype,
            device: CPU,
            axes: None,
            shape: Some(shape.to_vec()),
            strides: None,
            flags: 0,
            version: (1, 0),
            deletes: true,
        }
    }

    /// `f32`s in C order.
    pub(crate) fn floats(shape: &[i64], values: &[f32]) -> Self {
        let mut memory = vec![0; values.len().div_ceil(2)];
        for (word, pair) in memory.iter_mut().zip(values.chunks(2)) {
            let [low, high] =
                [pair[0], *pair.get(1).unwrap_or(&0.0)].map(|x| u64::from(x.to_bits()));
            *word = low | high << 32;
        }
        Self::new(named(2, 32, 1), shape, memory)
    }

    /// Exports it, with a counter of its deleter's calls.
    pub(crate) fn raw<F: Form>(mut self) -> (NonNull<F>, Arc<AtomicUsize>) {
        let deleted = Arc::new(AtomicUsize::new(0));
        let data = self.data.unwrap_or_else(|| self.memory.as_mut_ptr().expose_provenance());
        let numbers = |them: &mut Option<Vec<i64>>| {
            them.as_mut().map_or(std::ptr::null_mut(), |them| them.as_mut_ptr())
        };
        let axes = self.shape.as_ref().map_or(0, |shape| shape.len() as i32);
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(data),
            device: self.device,
            ndim: self.axes.unwrap_or(axes),
            dtype: self.dtype,
            shape: numbers(&mut self.shape),
            strides: numbers(&mut self.strides),
            byte_offset: self.offset,
        };
        let deleter = self.deletes.then_some(delete::<F> as unsafe extern "C" fn(*mut F));
        let made = F::made(tensor, &self, deleter);
        let held = Box::leak(Box::new(Held { made, deleted: deleted.clone(), _foreign: self }));
        (NonNull::from(held).cast(), deleted)
    }
}

#[repr(C)]
struct Held<F> {
    made: F,
    deleted: Arc<AtomicUsize>,
    _foreign: Foreign,
}

unsafe extern "C" fn delete<F>(tensor: *mut F) {
    // SAFETY: `raw` leaked it.
    let held = unsafe { Box::from_raw(tensor.cast::<Held<F>>()) };
    held.deleted.fetch_add(1, SeqCst);
}

/// The two forms, as their producer sees them.
pub(crate) trait Form: ManagedTensor {
    fn made(
        tensor: DLTensor,
        foreign: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self;

    fn described(&self) -> &DLTensor;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Form for DLManagedTensor {
    fn made(
        dl_tensor: DLTensor,
        _: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self {
        Self { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter }
    }

    fn described(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

impl Form for DLManagedTensorVersioned {
    fn made(
        dl_tensor: DLTensor,
        foreign: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self {
        let (major, minor) = foreign.version;
        Self {
            version: DLPackVersion { major, minor },
            manager_ctx: std::ptr::null_mut(),
            deleter,
            flags: foreign.flags,
            dl_tensor,
        }
    }

    fn described(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

pub(crate) fn import<F: Form>(foreign: Foreign) -> (Result<Tensor<Managed>>, Arc<AtomicUsize>) {
    let (raw, deleted) = foreign.raw::<F>();
    // SAFETY: the tensor is the test's; memory described wrongly is not used.
    (unsafe { dlpack::import(raw) }, deleted)
}

pub(crate) fn versioned(foreign: Foreign) -> Result<Tensor<Managed>> {
    import::<DLManagedTensorVersioned>(foreign).0
}

/// Why it was refused. Its deleter was called.
#[track_caller]
pub(crate) fn refused(foreign: Foreign) -> (AdoptFault, String) {
    let (outcome, deleted) = import::<DLManagedTensorVersioned>(foreign);
    let error = outcome.expect_err("it is refused");
    assert_eq!(deleted.load(SeqCst), 1);
    let text = error.to_string();
    assert!(text.contains("tests/dlpack/"), "{text}");
    match error {
        Error::NotAdoptable(it) => (it.fault, text),
        other => panic!("{other}"),
    }
}

/// A consumer of an exported tensor.
pub(crate) struct Consumer<F: Form>(pub(crate) NonNull<F>);

impl<F: Form> Consumer<F> {
    pub(crate) fn tensor(&self) -> &DLTensor {
        // SAFETY: it is there until it is deleted.
        unsafe { self.0.as_ref() }.described()
    }

    pub(crate) fn shape(&self) -> &[i64] {
        let DLTensor { shape, ndim, .. } = *self.tensor();
        // SAFETY: as many as there are axes.
        if ndim == 0 { &[] } else { unsafe { std::slice::from_raw_parts(shape, ndim as usize) } }
    }

    pub(crate) fn strides(&self) -> &[i64] {
        let DLTensor { strides, ndim, .. } = *self.tensor();
        // SAFETY: as many as there are axes.
        if ndim == 0 { &[] } else { unsafe { std::slice::from_raw_parts(strides, ndim as usize) } }
    }

    pub(crate) fn data(&self) -> *mut c_void {
        self.tensor().data.wrapping_byte_add(self.tensor().byte_offset as usize)
    }
}

impl<F: Form> Drop for Consumer<F> {
    fn drop(&mut self) {
        // SAFETY: it is there.
        let deleter = unsafe { self.0.as_ref() }.deleter().expect("there is one");
        // SAFETY: called once.
        unsafe { deleter(self.0.as_ptr()) }
    }
}
