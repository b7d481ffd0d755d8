//! Buffers whose data type is known at run time.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::backend::AllocKind;
use crate::derived::debug;
use crate::error::{Error, Failed, OtherDType, Site};
use crate::memory::{self, Allocation, Extent, take_back};
use crate::{
    Adopted, Buffer, DType, Device, DeviceMem, DynSlice, DynSliceMut, Element, NcclMem, Readable,
    Result, Writable,
};

/// `len` elements on device `D`, in memory of kind `M`, whose data type is a value. It can be used
/// wherever a [`Buffer`] can.
///
/// ```
/// # use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};
/// # fn main() -> Result<()> {
/// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = DynBuffer::zeros(comm.device(), DType::F32, 4)?;
/// comm.all_reduce_in_place(&mut x, Sum)?;
/// let x = x.try_into_typed::<f32>()?;
/// assert_eq!(x.to_vec()?, [0.0; 4]);
/// comm.finish()
/// # }
/// ```
pub struct DynBuffer<D: Device, M = DeviceMem> {
    allocation: Arc<Allocation<D::Backend>>,
    len: usize,
    dtype: DType,
    types: PhantomData<(fn() -> (D, M), Cell<()>)>,
}

impl<D: Device> DynBuffer<D> {
    /// Allocates `len` zeroed elements of `dtype`.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn zeros(device: &D, dtype: DType, len: usize) -> Result<Self> {
        Self::allocate(device, dtype, len, AllocKind::Plain, Site::caller())
    }
}

impl<D: Device> DynBuffer<D, NcclMem> {
    /// [`Device::nccl_zeros`] of a data type that is a value.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn nccl_zeros(device: &D, dtype: DType, len: usize) -> Result<Self> {
        Self::allocate(device, dtype, len, AllocKind::Nccl, Site::caller())
    }
}

impl<D: Device, M> DynBuffer<D, M> {
    fn allocate(device: &D, dtype: DType, len: usize, kind: AllocKind, site: Site) -> Result<Self> {
        let allocation = memory::allocate(device.ordinal(), dtype, len, kind, site)?;
        Ok(Self::from_allocation(allocation, len, dtype))
    }

    /// A buffer over an allocation of `len` elements of that type.
    pub(crate) fn from_allocation(
        allocation: Arc<Allocation<D::Backend>>,
        len: usize,
        dtype: DType,
    ) -> Self {
        Self { allocation, len, dtype, types: PhantomData }
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation<D::Backend>> {
        &self.allocation
    }

    /// The data type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Not available while the data type is a value: use [`try_into_typed`](Self::try_into_typed)
    /// first.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>>
    where
        Self: KnownType,
    {
        self.never()
    }

    /// Not available while the data type is a value: use [`try_into_typed`](Self::try_into_typed)
    /// first.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn copy_from<T: Element>(&mut self, _values: &[T]) -> Result<()>
    where
        Self: KnownType,
    {
        self.never()
    }

    /// A shared view of `range`. A range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DynSlice<'_, D> {
        DynSlice::new(&self.allocation, Extent::whole(self.len).narrow(range), self.dtype)
    }

    /// An exclusive view of `range`. A range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DynSliceMut<'_, D> {
        DynSliceMut::new(&self.allocation, Extent::whole(self.len).narrow(range), self.dtype)
    }

    /// The same memory under its type, if that is `T`; else the buffer is dropped.
    ///
    /// # Errors
    /// [`Error::OtherDType`](crate::Error::OtherDType).
    #[track_caller]
    pub fn typed<T: Element>(self) -> Result<Buffer<T, D, M>> {
        checked::<T>("typed", self.dtype, Site::caller())?;
        Ok(Buffer::from_allocation(self.allocation, self.len))
    }

    /// The same memory under its type, if that is `T`; else the buffer comes back in the error.
    ///
    /// # Errors
    /// [`Error::OtherDType`](crate::Error::OtherDType).
    #[track_caller]
    pub fn try_into_typed<T: Element>(self) -> Result<Buffer<T, D, M>, Failed<Self>> {
        match checked::<T>("try_into_typed", self.dtype, Site::caller()) {
            Ok(()) => Ok(Buffer::from_allocation(self.allocation, self.len)),
            Err(error) => Err(Failed { error, value: self }),
        }
    }
}

impl<D: Device, O: Send + 'static> DynBuffer<D, Adopted<O>> {
    /// Returns the owner, as [`Buffer::into_inner`] does.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn into_inner(self) -> Result<O, Failed<Self>> {
        take_back(&self.allocation, Site::caller()).map_err(|error| Failed { error, value: self })
    }
}

/// Fails unless the data type found is `T`'s.
pub(super) fn checked<T: Element>(operation: &'static str, found: DType, site: Site) -> Result<()> {
    if found == T::DTYPE {
        return Ok(());
    }
    let (expected, collective) = (T::DTYPE, false);
    Err(Error::from(OtherDType { operation, found, expected, site, collective }))
}

/// A buffer whose data type the compiler knows. Never implemented by [`DynBuffer`].
#[diagnostic::on_unimplemented(
    message = "the elements of a `{Self}` have no type to copy them as",
    label = "its data type is a value, known when the program runs",
    note = "give it its type first: `x.typed::<f32>()?`; `into_dyn` takes it away again"
)]
pub trait KnownType {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<T: Element, D: Device, M> Buffer<T, D, M> {
    /// The same memory with its data type as a value.
    pub fn into_dyn(self) -> DynBuffer<D, M> {
        DynBuffer::from_allocation(self.allocation().clone(), self.len(), T::DTYPE)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, M> Readable<D> for DynBuffer<D, M> {
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        (&self.allocation, Extent::whole(self.len))
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, M> Writable<D> for DynBuffer<D, M> {}

debug!(
    [D: Device, M] DynBuffer<D, M>,
    self => "DynBuffer of {} {} on {}", self.len, self.dtype, D::KIND
);
