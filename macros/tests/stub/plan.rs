//! Running plans, in name only.

use std::marker::PhantomData;
use std::panic::Location;

use super::error::Site;
use super::{
    Buffer, CanEnqueue, Communicator, Element, Result, Slice, SliceMut, Stream, Window, Work, World,
};

use typed_nccl_plan::check::Accepted;
pub use typed_nccl_plan::ir::Plan;
pub use typed_nccl_plan::verdict::Sizes;

#[track_caller]
pub const fn here() -> Site {
    Location::caller()
}

pub struct Declaration {
    pub data: &'static [u8],
    pub sites: &'static [Site],
}

impl Declaration {
    pub const fn new(data: &'static [u8], sites: &'static [Site]) -> Self {
        Self { data, sites }
    }

    pub fn plan(&'static self) -> Option<&'static Plan> {
        let read = postcard::from_bytes::<(Plan, Accepted)>(self.data);
        read.ok().map(|(plan, _)| &*Box::leak(Box::new(plan)))
    }
}

/// Notes what it is given.
#[derive(Default)]
pub struct Values(pub Vec<String>);

impl Values {
    pub fn new() -> Self {
        Self::default()
    }

    fn note(mut self, what: String) -> Self {
        self.0.push(what);
        self
    }

    pub fn axis(self, name: &str, extent: usize) -> Self {
        self.note(format!("{name}: {extent} ranks"))
    }

    pub fn number(self, name: &str, value: usize) -> Self {
        self.note(format!("{name} = {value}"))
    }

    pub fn list(self, name: &str, values: &[usize]) -> Self {
        self.note(format!("{name} = {values:?}"))
    }

    pub fn element<T: Element>(self, name: &str) -> Self {
        self.note(format!("{name} is {}", std::any::type_name::<T>()))
    }
}

pub struct Bound<W: World> {
    pub noted: Vec<String>,
    pub sites: &'static [Site],
    world: PhantomData<fn() -> W>,
}

impl<W: World> Bound<W> {
    #[track_caller]
    pub fn declared<S: CanEnqueue>(
        _: &mut Communicator<W, S>,
        name: &str,
        declaration: &'static Declaration,
        values: &Values,
    ) -> Result<Self> {
        let mut noted = vec![name.to_owned()];
        noted.extend_from_slice(&values.0);
        Ok(Self { noted, sites: declaration.sites, world: PhantomData })
    }

    #[track_caller]
    pub fn on<'a, S: CanEnqueue>(&'a mut self, _: &'a Communicator<W, S>) -> Run<'a, W> {
        Run(&mut self.noted, PhantomData)
    }

    pub fn submitted<S: CanEnqueue>(&self, _: &Communicator<W, S>) -> Result<Work<W::Device>> {
        Ok(Work(PhantomData))
    }

    /// What was noted, and the lines of the statements.
    pub fn describe(&self) -> String {
        let lines: Vec<String> = self.sites.iter().map(|site| site.line().to_string()).collect();
        format!("{}\nlines {}", self.noted.join("\n"), lines.join(", "))
    }

    pub fn to_svg(&self) -> String {
        String::new()
    }

    pub fn to_mermaid(&self) -> String {
        String::new()
    }

    pub fn estimate(&self, _: &cost::Topology) -> cost::Estimate {
        cost::Estimate
    }

    pub fn sizes(&self) -> &Sizes {
        unreachable!("not asked for here")
    }

    pub fn set_timing(&mut self, _: Timing) {}
}

pub struct Timing;

pub mod cost {
    pub struct Topology;
    pub struct Estimate;
}

pub struct Swapped<M>(pub M, pub M);
pub struct Slices<'a, T, W>(PhantomData<&'a (T, W)>);
pub struct SlicesMut<'a, T, W>(PhantomData<&'a (T, W)>);

pub trait PlanMemory<W: World> {}

impl<T, W: World> PlanMemory<W> for Buffer<T, W::Device> {}
impl<T, W: World> PlanMemory<W> for Window<T, W> {}
impl<M: PlanMemory<W>, W: World> PlanMemory<W> for Swapped<M> {}
impl<M: PlanMemory<W>, W: World> PlanMemory<W> for [M] {}

pub trait InputOf<T, W: World>: PlanMemory<W> {}
pub trait MemoryOf<T, W: World>: PlanMemory<W> {}
pub trait WholeOf<T, W: World>: PlanMemory<W> {}

impl<T, W: World> InputOf<T, W> for Buffer<T, W::Device> {}
impl<T, W: World> MemoryOf<T, W> for Buffer<T, W::Device> {}
impl<T, W: World> WholeOf<T, W> for Buffer<T, W::Device> {}

/// Calls the compute step `first`, and notes what it is given.
pub struct Run<'a, W: World>(&'a mut Vec<String>, PhantomData<fn() -> W>);

impl<'a, W: World> Run<'a, W> {
    pub fn read<M: PlanMemory<W> + ?Sized>(self, name: &str, _: &'a M) -> Self {
        self.0.push(format!("read {name}"));
        self
    }

    pub fn write<M: PlanMemory<W> + ?Sized>(self, name: &str, _: &'a mut M) -> Self {
        self.0.push(format!("write {name}"));
        self
    }

    pub fn run(self, steps: &mut (impl Steps<W> + ?Sized)) -> Result<()> {
        let mut call = Call { name: "first", taken: Vec::new(), world: PhantomData };
        steps.step(&mut call)?;
        self.0.push(call.taken.join(", "));
        Ok(())
    }
}

pub trait Steps<W: World> {
    fn step(&mut self, call: &mut Call<'_, W>) -> Result<()>;
}

impl<W: World> Steps<W> for () {
    fn step(&mut self, _: &mut Call<'_, W>) -> Result<()> {
        Ok(())
    }
}

pub struct Call<'r, W> {
    name: &'r str,
    taken: Vec<String>,
    world: PhantomData<&'r W>,
}

impl<'r, W: World> Call<'r, W> {
    pub fn name(&self) -> &str {
        self.name
    }

    pub fn number(&self, k: usize) -> Result<usize> {
        Ok(k)
    }

    pub fn read<T: Element>(&mut self, k: usize) -> Result<Slice<'r, T, W::Device>> {
        self.taken.push(format!("read {k}"));
        Ok(Slice(PhantomData))
    }

    pub fn write<T: Element>(&mut self, k: usize) -> Result<SliceMut<'r, T, W::Device>> {
        self.taken.push(format!("write {k}"));
        Ok(SliceMut(PhantomData))
    }

    pub fn reads<T: Element>(&mut self, k: usize) -> Result<Slices<'r, T, W>> {
        self.taken.push(format!("reads {k}"));
        Ok(Slices(PhantomData))
    }

    pub fn writes<T: Element>(&mut self, k: usize) -> Result<SlicesMut<'r, T, W>> {
        self.taken.push(format!("writes {k}"));
        Ok(SlicesMut(PhantomData))
    }

    pub fn stream(&self) -> &'r Stream<W::Device> {
        const { &Stream(PhantomData) }
    }
}

/// A closure that is one of the steps.
pub struct Closure<F>(pub F);

/// In the place of one that was not given yet.
pub struct NoClosure;
