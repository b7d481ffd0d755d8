//! ndarray's arrays, on the host: an owned one can be adopted, any one lent. The elements have to
//! be one contiguous block in C order, since ranks do not know each other's order.

use ndarray::{ArrayBase, ArrayViewMut, Data, DataMut, Dimension, OwnedRepr};

use crate::error::{AdoptFault, NotAdoptable, Site};
use crate::memory::{ForeignSpan, HostWaits, Lent, LentAs};
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

/// # Safety
/// The elements are borrowed for longer than the loan.
unsafe fn lent<T: Element, Tag>(
    device: &Host<Tag>,
    (start, len): (*mut T, usize),
    site: Site,
) -> Result<Lent<Host<Tag>, HostWaits>> {
    let place = ForeignSpan::of(start, len, device.ordinal(), None);
    // SAFETY: the caller's promise; only shared views are made of a shared borrow.
    unsafe { Lent::new(device, place, HostWaits, site) }
}

#[diagnostic::do_not_recommend]
impl<S: Data, I: Dimension, D: Device> LentAs<D> for &ArrayBase<S, I>
where
    S::Elem: Element,
{
    type View<'v> = Slice<'v, S::Elem, D>;
}

#[diagnostic::do_not_recommend]
impl<S: Data, I: Dimension, Tag> Lend<Host<Tag>> for &ArrayBase<S, I>
where
    S::Elem: Element,
{
    type Loan = Lent<Host<Tag>, HostWaits>;

    unsafe fn lend(self, device: &Host<Tag>, site: Site) -> Result<Self::Loan> {
        let elements = self.as_slice().ok_or_else(|| refused(self, "lend", site))?;
        let elements = (elements.as_ptr().cast_mut(), elements.len());
        // SAFETY: the caller's promise.
        unsafe { lent(device, elements, site) }
    }

    fn view(loan: &Self::Loan) -> <Self as LentAs<Host<Tag>>>::View<'_> {
        loan.slice()
    }
}

#[diagnostic::do_not_recommend]
impl<S: DataMut, I: Dimension, D: Device> LentAs<D> for &mut ArrayBase<S, I>
where
    S::Elem: Element,
{
    type View<'v> = SliceMut<'v, S::Elem, D>;
}

#[diagnostic::do_not_recommend]
impl<S: DataMut, I: Dimension, Tag> Lend<Host<Tag>> for &mut ArrayBase<S, I>
where
    S::Elem: Element,
{
    type Loan = Lent<Host<Tag>, HostWaits>;

    unsafe fn lend(self, device: &Host<Tag>, site: Site) -> Result<Self::Loan> {
        let elements = match self.as_slice_mut() {
            Some(elements) => (elements.as_mut_ptr(), elements.len()),
            None => return Err(refused(self, "lend", site)),
        };
        // SAFETY: the caller's promise.
        unsafe { lent(device, elements, site) }
    }

    fn view(loan: &Self::Loan) -> <Self as LentAs<Host<Tag>>>::View<'_> {
        loan.slice_mut()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, I: Dimension, D: Device> LentAs<D> for ArrayViewMut<'_, T, I> {
    type View<'v> = SliceMut<'v, T, D>;
}

#[diagnostic::do_not_recommend]
impl<T: Element, I: Dimension, Tag> Lend<Host<Tag>> for ArrayViewMut<'_, T, I> {
    type Loan = Lent<Host<Tag>, HostWaits>;

    unsafe fn lend(mut self, device: &Host<Tag>, site: Site) -> Result<Self::Loan> {
        // SAFETY: the caller's promise: the view's elements stay borrowed without it.
        unsafe { Lend::lend(&mut self, device, site) }
    }

    fn view(loan: &Self::Loan) -> <Self as LentAs<Host<Tag>>>::View<'_> {
        loan.slice_mut()
    }
}
