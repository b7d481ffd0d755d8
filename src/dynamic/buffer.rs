//! Buffers whose data type is known at run time.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{Error, Failed, OtherDType, Site};
use crate::memory::{Allocation, Elements, Extent};
use crate::{
    Buffer, DType, Device, DynElem, Element, F8E4M3, F8E5M2, Readable, Result, Writable, bf16, f16,
};

/// `len` elements on device `D` whose data type is a value. It goes wherever a
/// [`Buffer`] goes.
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
pub struct DynBuffer<D: Device> {
    allocation: Arc<Allocation<D::Backend>>,
    len: usize,
    dtype: DType,
    types: PhantomData<(fn() -> D, Cell<()>)>,
}

impl<D: Device> DynBuffer<D> {
    /// Allocates `len` zeroed elements of `dtype`.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn zeros(device: &D, dtype: DType, len: usize) -> Result<Self> {
        Ok(match dtype {
            DType::I8 => device.zeros::<i8>(len)?.into_dyn(),
            DType::U8 => device.zeros::<u8>(len)?.into_dyn(),
            DType::I32 => device.zeros::<i32>(len)?.into_dyn(),
            DType::U32 => device.zeros::<u32>(len)?.into_dyn(),
            DType::I64 => device.zeros::<i64>(len)?.into_dyn(),
            DType::U64 => device.zeros::<u64>(len)?.into_dyn(),
            DType::F16 => device.zeros::<f16>(len)?.into_dyn(),
            DType::F32 => device.zeros::<f32>(len)?.into_dyn(),
            DType::F64 => device.zeros::<f64>(len)?.into_dyn(),
            DType::Bf16 => device.zeros::<bf16>(len)?.into_dyn(),
            DType::F8E4M3 => device.zeros::<F8E4M3>(len)?.into_dyn(),
            DType::F8E5M2 => device.zeros::<F8E5M2>(len)?.into_dyn(),
        })
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

    /// Does not exist while the data type is a value: use
    /// [`try_into_typed`](Self::try_into_typed) first.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>>
    where
        Self: KnownType,
    {
        self.never()
    }

    /// Does not exist while the data type is a value: use
    /// [`try_into_typed`](Self::try_into_typed) first.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn copy_from<T: Element>(&mut self, _values: &[T]) -> Result<()>
    where
        Self: KnownType,
    {
        self.never()
    }

    /// The same memory under its type, if that is `T`; else the buffer comes back in the error.
    ///
    /// # Errors
    /// [`Error::OtherDType`].
    #[track_caller]
    pub fn try_into_typed<T: Element>(self) -> Result<Buffer<T, D>, Failed<Self>> {
        if self.dtype == T::DTYPE {
            return Ok(Buffer::from_allocation(self.allocation, self.len));
        }
        let error = Error::OtherDType(Box::new(OtherDType {
            operation: "try_into_typed",
            found: self.dtype,
            expected: T::DTYPE,
            site: Site::caller(),
            collective: false,
        }));
        Err(Failed { error, value: self })
    }
}

/// A buffer whose data type the compiler knows. No [`DynBuffer`] is one.
#[diagnostic::on_unimplemented(
    message = "the elements of a `{Self}` have no type to copy them as",
    label = "its data type is a value, known when the program runs",
    note = "give it its type first: `x.try_into_typed::<f32>()?`; `into_dyn` takes it away again"
)]
pub trait KnownType {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<T: Element, D: Device, M> Buffer<T, D, M> {
    /// The same memory with its data type as a value.
    pub fn into_dyn(self) -> DynBuffer<D> {
        let (allocation, len) = (self.allocation().clone(), self.len());
        DynBuffer { allocation, len, dtype: T::DTYPE, types: PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device> Elements for DynBuffer<D> {
    type Elem = DynElem;
    type Device = D;
}

#[diagnostic::do_not_recommend]
impl<D: Device> Readable<D> for DynBuffer<D> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        (&self.allocation, Extent::whole(self.len))
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device> Writable<D> for DynBuffer<D> {}

impl<D: Device> fmt::Debug for DynBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynBuffer of {} {} on {}", self.len, self.dtype, D::KIND)
    }
}
