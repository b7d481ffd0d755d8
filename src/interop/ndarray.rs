//! ndarray's arrays, on the host: an owned one can be adopted, any one lent. The elements have to
//! be one contiguous block in C order, since ranks do not know each other's order.

use ndarray::{ArrayBase, ArrayViewMut, Data, DataMut, Dimension, OwnedRepr};

use crate::error::{AdoptFault, NotAdoptable, Site};
use crate::memory::{HostWaits, Lent, LentAs};
use crate::{Device, Element, ForeignMemory, Host, Lend, Mark, Result, Slice, SliceMut};

/// The error for elements that are not contiguous in C order.
fn refused<S: Data, I: Dimension>(
    array: &ArrayBase<S, I>,
    operation: &'static str,
    site: Site,
) -> crate::Error {
    let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
    // `as_slice_memory_order` accepts any contiguous order.
    let fault = match array.as_slice_memory_order() {
        Some(_) => AdoptFault::OtherOrder { shape, strides },
        None => AdoptFault::Strided { shape, strides },
    };
    NotAdoptable::new(operation, fault, site).of("ndarray").into()
}

// SAFETY: an array owns its elements, initialised, in a vector, and they stay in place while it is
// moved. If they are contiguous in C order, the slice starts at the first; else `ready` refuses
// them.
unsafe impl<T: Element, I: Dimension + 'static, Tag> ForeignMemory<Host<Tag>>
    for ArrayBase<OwnedRepr<T>, I>
{
    type Elem = T;

    fn start(&mut self) -> *mut T {
        self.as_slice_mut().map_or(std::ptr::null_mut(), <[T]>::as_mut_ptr)
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn ready(&mut self, _: &Host<Tag>) -> Result<Option<Mark<Host<Tag>>>> {
        match self.as_slice() {
            Some(_) => Ok(None),
            None => Err(refused(self, "adopt", Site::caller())),
        }
    }
}

type Elements<T> = Result<(*mut T, usize)>;

fn shared<S: Data, I: Dimension>(array: &ArrayBase<S, I>, site: Site) -> Elements<S::Elem> {
    let elements = array.as_slice().ok_or_else(|| refused(array, "lend", site))?;
    Ok((elements.as_ptr().cast_mut(), elements.len()))
}

fn exclusive<S: DataMut, I: Dimension>(
    array: &mut ArrayBase<S, I>,
    site: Site,
) -> Elements<S::Elem> {
    match array.as_slice_mut() {
        Some(elements) => Ok((elements.as_mut_ptr(), elements.len())),
        None => Err(refused(array, "lend", site)),
    }
}

macro_rules! of_ndarray {
    ($([$($params:tt)*] $memory:ty, of $T:ty: $view:ident $slice:ident, $elements:expr;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($params)*, I: Dimension, D: Device> LentAs<D> for $memory
        where
            $T: Element,
        {
            type View<'v> = $view<'v, $T, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<$($params)*, I: Dimension, Tag> Lend<Host<Tag>> for $memory
        where
            $T: Element,
        {
            type Loan = Lent<Host<Tag>, HostWaits>;

            unsafe fn lend(self, device: &Host<Tag>, site: Site) -> Result<Self::Loan> {
                let elements: fn(Self, Site) -> Elements<$T> = $elements;
                // SAFETY: the caller's promise: the elements stay borrowed, also without the view;
                // only shared views are made of a shared borrow.
                unsafe { Lent::on_host(device, elements(self, site)?, site) }
            }

            fn view(loan: &Self::Loan) -> <Self as LentAs<Host<Tag>>>::View<'_> {
                loan.$slice()
            }
        }
    )+ };
}

of_ndarray! {
    [S: Data] &ArrayBase<S, I>, of S::Elem: Slice slice, shared;
    [S: DataMut] &mut ArrayBase<S, I>, of S::Elem: SliceMut slice_mut, exclusive;
    [T] ArrayViewMut<'_, T, I>, of T: SliceMut slice_mut, |mut it, site| exclusive(&mut it, site);
}
