//! Running plans, in name only.

use std::marker::PhantomData;
use std::panic::Location;

use super::{Buffer, Communicator, Element, Result, Slice, SliceMut, Stream, Window, World};

pub use typed_nccl_plan::ir;

pub type Site = &'static Location<'static>;

#[track_caller]
pub const fn here() -> Site {
    Location::caller()
}

pub struct Declaration {
    pub json: &'static str,
    pub sites: &'static [Site],
}

impl Declaration {
    pub const fn new(json: &'static str, sites: &'static [Site]) -> Self {
        Self { json, sites }
    }

    pub fn plan(&'static self) -> &'static ir::Plan {
        Box::leak(Box::new(ir::Plan::from_json(self.json).expect("a plan")))
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
    pub fn declared(
        _: &mut Communicator<W>,
        declaration: &'static Declaration,
        values: &Values,
    ) -> Result<Self> {
        Ok(Self { noted: values.0.clone(), sites: declaration.sites, world: PhantomData })
    }

    /// Calls each compute step once; what went in is the error.
    #[track_caller]
    pub fn run<'a>(
        &mut self,
        _: &Communicator<W>,
        arguments: &[(&str, Argument<'a, W>)],
        steps: &mut impl Steps<W>,
    ) -> Result<()> {
        let names: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        self.noted.push(names.join(", "));
        let mut call = Call { name: "first", taken: Vec::new(), world: PhantomData };
        steps.step(&mut call)?;
        self.noted.push(call.taken.join(", "));
        Ok(())
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

    pub fn estimate(&self, _: &Topology) -> Estimate {
        Estimate
    }
}

pub struct Topology;
pub struct Estimate;
pub struct Swapped<M>(pub M, pub M);
pub struct Slices<'a, T, D>(PhantomData<&'a (T, D)>);
pub struct SlicesMut<'a, T, D>(PhantomData<&'a (T, D)>);
pub struct Argument<'a, W>(PhantomData<&'a W>);

macro_rules! from {
    ($($memory:ty),+ $(,)?) => {$(
        impl<'a, T, W: World> From<$memory> for Argument<'a, W> {
            fn from(_: $memory) -> Self {
                Self(PhantomData)
            }
        }
    )+};
}

from! {
    &'a Buffer<T, W::Device>, &'a mut Buffer<T, W::Device>,
    &'a [Buffer<T, W::Device>], &'a mut [Buffer<T, W::Device>],
    &'a Window<T, W>, &'a mut Window<T, W>, &'a [Window<T, W>], &'a mut [Window<T, W>],
    &'a mut Swapped<Buffer<T, W::Device>>, &'a mut Swapped<Window<T, W>>,
    &'a mut [Swapped<Buffer<T, W::Device>>], &'a mut [Swapped<Window<T, W>>],
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

    pub fn reads<T: Element>(&mut self, k: usize) -> Result<Slices<'r, T, W::Device>> {
        self.taken.push(format!("reads {k}"));
        Ok(Slices(PhantomData))
    }

    pub fn writes<T: Element>(&mut self, k: usize) -> Result<SlicesMut<'r, T, W::Device>> {
        self.taken.push(format!("writes {k}"));
        Ok(SlicesMut(PhantomData))
    }

    pub fn stream(&self) -> &'r Stream<W::Device> {
        const { &Stream(PhantomData) }
    }
}
