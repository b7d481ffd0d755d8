//! Compute steps: the program's work between the communication.

use super::argument::PlanOperand;
use super::prepare::{Computes, Region, Spot};
use crate::derived::debug;
use crate::error::{BadStep, Error};
use crate::memory::Extent;
use crate::one_thread::{AnotherThread, UseView};
use crate::{Device, Element, Result, Slice, SliceMut, Stream, World};

/// The compute steps of a plan that is made at run time. A closure `|call: &mut Call<'_, Host>| ..`
/// implements it, with the type of the device or the world spelled out; `()` does for plans without
/// compute steps.
///
/// For a plan of [`plan!`](crate::plan!) implement the trait `Steps` of its module.
///
/// ```
/// # use typed_nccl::{Host, Seat, plan::{self, Call, Steps, Values, build::PlanBuilder}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut plan = PlanBuilder::new("fill");
/// plan.ranks(1..);
/// let (x, net) = (plan.in_out::<f32>("x", 4), plan.stream("net"));
/// plan.on(net).run("ones").writes(x);
/// let checked = plan.check().expect("a plan that is right");
///
/// fn ones() -> impl Steps<Host> {
///     |call: &mut Call<'_, Host>| {
///         assert_eq!(call.name(), "ones");
///         let mut x = call.write::<f32>(0)?;
///         call.stream().launch(&mut x, |x, ()| x.fill(1.0))
///     }
/// }
/// let mut fill = plan::bind(&mut comm, checked.plan(), &Values::new())?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// fill.on(&comm).write("x", &mut x).run(&mut ones())?;
/// assert_eq!(x.to_vec()?, [1.0; 4]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not run the compute steps of a plan on `{W}`",
    label = "no steps",
    note = "implement `Steps`, or give a closure `|call: &mut Call<'_, Host>| ..`; `&mut ()` for a plan without compute steps"
)]
pub trait Steps<W: World> {
    /// Enqueues one step on the call's stream. The host must not wait in it.
    ///
    /// # Errors
    /// Its own, such as [`Error::other`] of an error in your code. The rest of the run on this rank
    /// is refused then, and the other ranks are told.
    fn step(&mut self, call: &mut Call<'_, W>) -> Result<()>;
}

impl<W: World> Steps<W> for () {
    fn step(&mut self, call: &mut Call<'_, W>) -> Result<()> {
        Err(call.bad("nothing runs it: give the run its compute steps".to_owned()))
    }
}

impl<W: World, F: FnMut(&mut Call<'_, W>) -> Result<()>> Steps<W> for F {
    fn step(&mut self, call: &mut Call<'_, W>) -> Result<()> {
        self(call)
    }
}

/// A closure that is one of the steps of a plan of [`plan!`](crate::plan!).
///
/// ```
/// # use typed_nccl::{Host, SliceMut, plan::{Closure, NoClosure}, plans::grad_sync, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let params = grad_sync::Params { k: 1, sizes: &[4] };
/// let mut sync = grad_sync::bind::<f32, _>(&mut comm, params)?;
/// let mut g = [comm.device().zeros(4)?];
/// let rank = comm.rank().index() as f32;
/// // `Closures<.., NoClosure, NoClosure>`, then `Closures<.., Closure<_>, NoClosure>`, and so on.
/// let mut steps = sync
///     .steps()
///     .backward(move |_, mut g, stream| stream.launch(&mut g, move |g, ()| g.fill(rank)))
///     .apply(|_, _| Ok(()));
/// sync.run(&comm, grad_sync::Buffers { g: &mut g }, &mut steps)?;
/// assert_eq!(g[0].to_vec()?, [0.5; 4]);
/// # comm.finish() }).expect("every rank ends well");
/// ```
pub struct Closure<F>(#[doc(hidden)] pub F);

/// Placeholder for a closure that was not given yet.
///
/// See the example of [`Closure`].
#[derive(Debug)]
pub struct NoClosure;

debug!([F] Closure<F>, self => "a closure");

/// One compute step of a run, with the memory that the plan declares for it.
///
/// See the example of [`Steps`].
pub struct Call<'r, W: World> {
    pub(super) plan: &'r str,
    pub(super) this: &'r Computes,
    pub(super) places: &'r [PlanOperand<'r, W>],
    pub(super) stream: &'r Stream<W::Device>,
    /// For each region that is written, whether it was handed out.
    pub(super) taken: &'r mut [bool],
}

impl<'r, W: World> Call<'r, W> {
    /// Its name in the plan.
    pub fn name(&self) -> &'r str {
        &self.this.name
    }

    /// The stream that it runs on.
    pub fn stream(&self) -> &'r Stream<W::Device> {
        self.stream
    }

    /// Its numeric argument `index`.
    ///
    /// # Errors
    /// It has no such argument, or the argument is negative.
    pub fn number(&self, index: usize) -> Result<usize> {
        match self.this.arguments.get(index).map(|number| usize::try_from(*number)) {
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) => Err(self.bad(format!("number {index} is below zero"))),
            None => Err(self.bad(format!("it has no number {index}"))),
        }
    }

    /// The read region with this index.
    ///
    /// # Errors
    /// There is no such region, or it has another element type; the step also writes it: use
    /// [`write`](Self::write); it is an array: use [`reads`](Self::reads).
    pub fn read<T: Element>(&self, index: usize) -> Result<Slice<'r, T, W::Device>> {
        let list = self.reads(index)?;
        match list.spots {
            [_] => list.at(0),
            _ => None,
        }
        .ok_or_else(|| self.bad(format!("region {index} of what it reads is an array")))
    }

    /// The read region with this index, buffer by buffer, for a whole array.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn reads<T: Element>(&self, index: usize) -> Result<Slices<'r, T, W>> {
        let Some(region) = self.this.reads.get(index) else {
            return Err(self.bad(format!("it reads no region {index}")));
        };
        if region.is_updated {
            return Err(self.bad(format!(
                "region {index} of what it reads is also written: take it with `write`"
            )));
        }
        self.list(region)
    }

    /// The written region with this index.
    ///
    /// # Errors
    /// There is no such region, or it has another element type; it was taken before; it is an
    /// array: use [`writes`](Self::writes).
    pub fn write<T: Element>(&mut self, index: usize) -> Result<SliceMut<'r, T, W::Device>> {
        let mut list = self.writes(index)?;
        match list.list.spots {
            [_] => list.next(),
            _ => None,
        }
        .ok_or_else(|| self.bad(format!("region {index} of what it writes is an array")))
    }

    /// The written region with this index, buffer by buffer, for a whole array.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn writes<T: Element>(&mut self, index: usize) -> Result<SlicesMut<'r, T, W>> {
        let Some(region) = self.this.writes.get(index) else {
            return Err(self.bad(format!("it writes no region {index}")));
        };
        let list = self.list(region)?;
        match self.taken.get_mut(index) {
            Some(taken @ false) => *taken = true,
            _ => return Err(self.bad(format!("region {index} of what it writes is taken"))),
        }
        Ok(SlicesMut { list, next: 0 })
    }

    fn list<T: Element>(&self, region: &'r Region) -> Result<Slices<'r, T, W>> {
        let list = Slices { places: self.places, spots: &region.spots, types: Default::default() };
        if let Some(found) = region.dtype.filter(|found| *found != T::DTYPE) {
            return Err(self.bad(format!("it asks for {}, and the memory is {found}", T::DTYPE)));
        }
        Ok(list)
    }

    pub(super) fn bad(&self, why: String) -> Error {
        let (plan, step) = (self.plan.to_owned(), self.this.name.clone());
        BadStep { plan, step, why }.into()
    }
}

debug!(
    [W: World] Call<'_, W>,
    self => "step `{}` of plan `{}`, with {:?}", self.this.name, self.plan, self.this.arguments
);

/// The buffers of an array, for reading.
///
/// ```
/// # use typed_nccl::{Host, Seat, plan::{self, Call, Slices, Values, build::PlanBuilder}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut plan = PlanBuilder::new("look");
/// plan.ranks(1..);
/// let (x, net) = (plan.array(2).input::<f32>("x", |_| 4), plan.stream("net"));
/// plan.on(net).run("look").reads(x);
/// let checked = plan.check().expect("a plan that is right");
///
/// let mut look = plan::bind(&mut comm, checked.plan(), &Values::new())?;
/// let x = vec![comm.device().zeros::<f32>(4)?, comm.device().zeros(4)?];
/// look.on(&comm).read("x", &x).run(&mut |call: &mut Call<'_, Host>| {
///     let both: Slices<'_, f32, Host> = call.reads(0)?;
///     assert_eq!((both.len(), both.iter().map(|x| x.len()).sum::<usize>()), (2, 8));
///     Ok(())
/// })?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Slices<'r, T, W: World> {
    places: &'r [PlanOperand<'r, W>],
    spots: &'r [Spot],
    types: std::marker::PhantomData<fn() -> T>,
}

// SAFETY: never applies: nothing implements `UseView`, and no other crate can.
unsafe impl<T, W: World> Send for Slices<'_, T, W> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Send`.
unsafe impl<T, W: World> Sync for Slices<'_, T, W> where AnotherThread: UseView<Self> {}

// SAFETY: never applies: nothing implements `UseView`, and no other crate can.
unsafe impl<T, W: World> Send for SlicesMut<'_, T, W> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Send`.
unsafe impl<T, W: World> Sync for SlicesMut<'_, T, W> where AnotherThread: UseView<Self> {}

impl<T, W: World> Clone for Slices<'_, T, W> {
    fn clone(&self) -> Self {
        Self { places: self.places, spots: self.spots, types: self.types }
    }
}

impl<'r, T: Element, W: World> Slices<'r, T, W> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.spots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    /// The buffer at that index.
    pub fn get(&self, index: usize) -> Option<Slice<'r, T, W::Device>> {
        self.at(index)
    }

    /// The buffers in order.
    pub fn iter(&self) -> impl Iterator<Item = Slice<'r, T, W::Device>> + use<'r, T, W> {
        let list = self.clone();
        (0..list.len()).filter_map(move |index| list.at(index))
    }

    fn at(&self, index: usize) -> Option<Slice<'r, T, W::Device>> {
        let spot = self.spots.get(index)?;
        Some(Slice::new(self.places[spot.object].allocation, self.extent(spot)))
    }

    fn extent(&self, spot: &Spot) -> Extent {
        let place = &self.places[spot.object];
        let start = place.start + spot.start;
        Extent::whole(place.start + place.len).narrow(start..start + spot.len)
    }
}

debug!(
    [T: Element, W: World] Slices<'_, T, W>,
    self => "{} slices of {} on {}", self.len(), T::DTYPE, W::Device::KIND
);

/// The buffers of an array, for writing: an iterator, since each is handed out once.
///
/// ```
/// # use typed_nccl::{Host, Seat, plan::{self, Call, SlicesMut, Values, build::PlanBuilder}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut plan = PlanBuilder::new("fill");
/// plan.ranks(1..);
/// let (x, net) = (plan.array(2).output::<f32>("x", |_| 4), plan.stream("net"));
/// plan.on(net).run("numbers").writes(x);
/// let checked = plan.check().expect("a plan that is right");
///
/// let mut fill = plan::bind(&mut comm, checked.plan(), &Values::new())?;
/// let mut x = vec![comm.device().zeros::<f32>(4)?, comm.device().zeros(4)?];
/// fill.on(&comm).write("x", &mut x).run(&mut |call: &mut Call<'_, Host>| {
///     let (both, stream): (SlicesMut<'_, f32, Host>, _) = (call.writes(0)?, call.stream());
///     both.enumerate()
///         .try_for_each(|(i, mut x)| stream.launch(&mut x, move |x, ()| x.fill(i as f32)))
/// })?;
/// assert_eq!(x[1].to_vec()?, [1.0; 4]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct SlicesMut<'r, T, W: World> {
    list: Slices<'r, T, W>,
    next: usize,
}

impl<'r, T: Element, W: World> Iterator for SlicesMut<'r, T, W> {
    type Item = SliceMut<'r, T, W::Device>;

    fn next(&mut self) -> Option<Self::Item> {
        let spot = self.list.spots.get(self.next)?;
        self.next += 1;
        // Nobody else has it: spots of a step's writes are disjoint, no read returns them, and a
        // region is handed out once, one spot after the other.
        let extent = self.list.extent(spot);
        Some(SliceMut::new(self.list.places[spot.object].allocation, extent))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.spots.len() - self.next;
        (left, Some(left))
    }
}

impl<T: Element, W: World> ExactSizeIterator for SlicesMut<'_, T, W> {}

debug!([T: Element, W: World] SlicesMut<'_, T, W>, self => "{:?}, to write", self.list);
