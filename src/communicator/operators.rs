//! User-defined operators, whose scalars are fixed or in device memory.

use super::{Back, CanEnqueue, Communicator, Made, Scalar, State};
use crate::backend::{Copies, Lifecycle};
use crate::error::{AdoptFault, BadLength, NotAdoptable, OtherDevice, Site};
use crate::memory::Booking;
use crate::reduce::{PreMulSum, ScalarInMemory, SettableScalar};
use crate::{Buffer, Device, Numeric, Result, World, element, wait};

/// ## Operators of your own
impl<W: World, S: State> Communicator<W, S> {
    /// Creates a reduction that multiplies this rank's elements by `scalar` and adds
    /// (`ncclRedOpCreatePreMulSum`). Local; each rank may choose its own scalar.
    ///
    /// # Errors
    /// A poisoned communicator.
    pub fn pre_mul_sum<T: Numeric>(&mut self, scalar: T) -> Result<PreMulSum<T, W>>
    where
        S: CanEnqueue,
    {
        let core = &mut S::live_mut(&mut self.body).core;
        let (dtype, bytes) = (T::DTYPE, element::bytes(scalar));
        let operator = Back::<W>::pre_mul_sum(core.comm()?, dtype, bytes)?;
        let made = Made { operator, dtype, scalar: Scalar::Host(bytes) };
        Ok(PreMulSum::new(core.add_operator(made)?))
    }

    /// [`pre_mul_sum`](Self::pre_mul_sum) with a scalar in device memory: the first element of
    /// `scalar`, which the operator owns from now on. Operations read it when they run, as does
    /// each launch of a graph; [`set_scalar`](Self::set_scalar) writes it. The host waits for
    /// enqueued writes to it.
    ///
    /// # Errors
    /// [`Error::BadLength`](crate::Error::BadLength): no element;
    /// [`Error::OtherDevice`](crate::Error::OtherDevice);
    /// [`Error::NotAdoptable`](crate::Error::NotAdoptable): peers may write it, in a window of
    /// another communicator or of one that failed; an error of the work that wrote the scalar; a
    /// poisoned communicator.
    #[track_caller]
    pub fn pre_mul_sum_device<T: Numeric, M>(
        &mut self,
        scalar: Buffer<T, W::Device, M>,
    ) -> Result<PreMulSum<T, W, ScalarInMemory>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let core = &mut S::live_mut(&mut self.body).core;
        let allocation = scalar.allocation();
        let (operation, dtype) = ("pre_mul_sum_device", T::DTYPE);
        if scalar.is_empty() {
            let bad = BadLength::new(operation, "scalar's", dtype, (0, 1), "a scalar", site);
            return Err(bad.into());
        }
        let at = (allocation.ordinal(), core.ordinal);
        OtherDevice::unless_same(operation, "scalar", W::Device::KIND, at, site)?;
        // Operations read it without a lock.
        let fault = match &allocation.order {
            order if order.is_in_a_window() => {
                Some(AdoptFault::InUse { by: "a window of another communicator".to_owned() })
            }
            order if order.is_exposed() => Some(AdoptFault::Exposed),
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(NotAdoptable::new(operation, fault, site).into());
        }
        wait::until(&allocation.order.points(true)?, Some(core.within()), operation, site)?;
        let operator = Back::<W>::pre_mul_sum_device(core.comm()?, dtype, allocation)?;
        let made = Made { operator, dtype, scalar: Scalar::Device(allocation.clone()) };
        Ok(PreMulSum::new(core.add_operator(made)?))
    }

    /// Sets this rank's scalar of an operator, in stream order on the communicator's own stream:
    /// work enqueued before uses the old value, work enqueued later the new one, launches of graphs
    /// included. Local; the host does not wait.
    ///
    /// ```
    /// use typed_nccl::{Host, spmd};
    ///
    /// # fn main() -> typed_nccl::Result<()> {
    /// spmd::<Host>(2, |place| {
    ///     let mut comm = place.init()?;
    ///     let one = comm.device().from_slice(&[1.0_f32])?;
    ///     let scaled = comm.pre_mul_sum_device(one)?;
    ///     let x = comm.device().from_slice(&[1.0_f32; 4])?;
    ///     let mut sums = comm.device().zeros::<f32>(4)?;
    ///     let mut graph = comm.capture(|g| g.all_reduce(&x, &mut sums, &scaled))?;
    ///     for scale in [0.5_f32, 0.25] {
    ///         comm.set_scalar(&scaled, scale)?;
    ///         graph.launch(&comm)?;
    ///         assert_eq!(sums.to_vec()?, [2.0 * scale; 4]);
    ///     }
    ///     comm.finish()
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongCommunicator`](crate::Error::WrongCommunicator); a poisoned communicator; an
    /// error of the device.
    #[track_caller]
    pub fn set_scalar<T: Numeric, I: SettableScalar>(
        &self,
        operator: &PreMulSum<T, W, I>,
        scalar: T,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        let live = S::live(&self.body);
        let (core, stream) = (&live.core, &live.stream.core);
        core.comm()?;
        let to = core.resources.scalar(operator.key())?;
        let _booking = Booking::new(stream, (&to.order, true))?;
        let (bytes, width, site) = (element::bytes(scalar), size_of::<T>(), Site::caller());
        // SAFETY: an operator of `T` was created from this memory, so it starts with an element of
        // `T`; the booking orders this write after earlier uses.
        unsafe { <Back<W> as Copies>::fill(stream.raw(), (&to, 0), bytes, width, 1, site) }
    }

    /// NCCL's number of an operator (`ncclRedOp_t`), for calls that this library does not wrap;
    /// `None` on the host. It changes when the communicator is replaced (`recover`, `shrink`,
    /// `grow`).
    ///
    /// # Errors
    /// An operator of another communicator; a poisoned communicator.
    pub fn operator_number<T: Numeric, F>(
        &self,
        operator: &PreMulSum<T, W, F>,
    ) -> Result<Option<i32>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.comm()?;
        core.resources.operator(operator.key()).map(Back::<W>::operator_number)
    }
}
