//! Declares memory: its properties, then its role.

use std::marker::PhantomData;

use super::memory::{Base, Buffer, Buffers, Plain, Single, Swapped, Symmetric};
use super::number::Number;
use super::{Open, PlanBuilder, id};
use crate::element::PlanElement;
use crate::ir::{self, Array, BufferId, Expr, Role};

/// A declaration of memory in progress: properties come before the role.
#[must_use = "declares nothing before its role: `.in_out(..)`, `.local(..)`"]
#[derive(Debug)]
pub struct Declare<'p, K = Plain, C = Single> {
    plan: &'p mut PlanBuilder<Open>,
    traits: Traits,
    kind: PhantomData<fn() -> (K, C)>,
}

/// A declaration of an array in progress.
#[must_use = "declares nothing before its role: `.in_out(..)`, `.local(..)`"]
#[derive(Debug)]
pub struct DeclareArray<'p, K = Plain, C = Single> {
    one: Declare<'p, K, C>,
    count: Number,
}

/// The lengths of an array's buffers: a closure from the index to anything that is a [`Number`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no lengths of an array's buffers",
    label = "expected a closure from the index to the length",
    note = "where all are of one length: `|_| len`; where a list has the lengths: `|i| lens.at(i)`"
)]
pub trait LengthOfEach: FnOnce(Number) -> <Self as LengthOfEach>::Length {
    /// What the closure returns.
    type Length: Into<Number>;
}

impl<F: FnOnce(Number) -> N, N: Into<Number>> LengthOfEach for F {
    type Length = N;
}

#[derive(Clone, Copy, Debug)]
struct Traits {
    window: bool,
    copies: u8,
}

macro_rules! roles {
    ($($(#[$doc:meta])+ $method:ident = $role:ident;)+) => {
        impl<K, C> Declare<'_, K, C> {
            $(
                $(#[$doc])+
                #[track_caller]
                pub fn $method<T: PlanElement>(self, name: &str, len: impl Into<Number>) -> Buffer<T, K, C> {
                    self.single(name, Role::$role, len.into())
                }
            )+
        }

        impl<K, C> DeclareArray<'_, K, C> {
            $(
                $(#[$doc])+
                /// `len` gives the length of the buffer at an index: `|_| 4`, `|i| lens.at(i)`.
                #[track_caller]
                pub fn $method<T: PlanElement>(
                    self,
                    name: &str,
                    len: impl LengthOfEach,
                ) -> Buffers<T, K, C> {
                    self.several(name, Role::$role, len)
                }
            )+
        }
    };
}

roles! {
    /// Memory that the caller fills and the plan only reads.
    input = In;
    /// Memory that the plan fills for the caller.
    output = Out;
    /// Memory that the caller fills and the plan reads and writes.
    in_out = InOut;
    /// Internal memory of the plan: its content is unspecified at the start of a run.
    local = Local;
}

impl PlanBuilder<Open> {
    /// Memory that the caller fills and the plan only reads.
    #[track_caller]
    pub fn input<T: PlanElement>(&mut self, name: &str, len: impl Into<Number>) -> Buffer<T> {
        self.buffer().input(name, len)
    }

    /// Memory that the plan fills for the caller.
    #[track_caller]
    pub fn output<T: PlanElement>(&mut self, name: &str, len: impl Into<Number>) -> Buffer<T> {
        self.buffer().output(name, len)
    }

    /// Memory that the caller fills and the plan reads and writes.
    #[track_caller]
    pub fn in_out<T: PlanElement>(&mut self, name: &str, len: impl Into<Number>) -> Buffer<T> {
        self.buffer().in_out(name, len)
    }

    /// Internal memory of the plan: its content is unspecified at the start of a run.
    #[track_caller]
    pub fn local<T: PlanElement>(&mut self, name: &str, len: impl Into<Number>) -> Buffer<T> {
        self.buffer().local(name, len)
    }

    /// A symmetric window, which puts require: `plan.window().in_out::<f32>("u", m)`.
    pub fn window(&mut self) -> Declare<'_, Symmetric> {
        self.buffer().window()
    }

    /// An array of buffers: `plan.array(k).in_out::<f32>("g", |i| sizes.at(i))`.
    pub fn array(&mut self, count: impl Into<Number>) -> DeclareArray<'_> {
        self.buffer().array(count)
    }

    /// A buffer whose two copies swap after every run.
    pub fn swapped(&mut self) -> Declare<'_, Plain, Swapped> {
        self.buffer().swapped()
    }

    fn buffer(&mut self) -> Declare<'_> {
        let traits = Traits { window: false, copies: 1 };
        Declare { plan: self, traits, kind: PhantomData }
    }
}

impl<'p, K, C> Declare<'p, K, C> {
    /// A symmetric window.
    pub fn window(self) -> Declare<'p, Symmetric, C> {
        let traits = Traits { window: true, ..self.traits };
        Declare { plan: self.plan, traits, kind: PhantomData }
    }

    /// Two copies, which swap after every run.
    pub fn swapped(self) -> Declare<'p, K, Swapped> {
        let traits = Traits { copies: 2, ..self.traits };
        Declare { plan: self.plan, traits, kind: PhantomData }
    }

    /// An array of such buffers.
    pub fn array(self, count: impl Into<Number>) -> DeclareArray<'p, K, C> {
        DeclareArray { one: self, count: count.into() }
    }

    #[track_caller]
    fn single<T: PlanElement>(self, name: &str, role: Role, len: Number) -> Buffer<T, K, C> {
        let base = self.declare::<T>(name, role, len, None);
        Buffer { base, len, kind: PhantomData }
    }

    #[track_caller]
    fn declare<T: PlanElement>(
        self,
        name: &str,
        role: Role,
        len: Number,
        array: Option<Array>,
    ) -> Base {
        let Self { plan, traits: Traits { window, copies }, .. } = self;
        let (at, name, element) = (plan.here(), name.to_owned(), T::element());
        let len = plan.expr(len);
        plan.plan.buffers.push(ir::Buffer { name, element, len, array, role, window, copies, at });
        let buffer = BufferId(id(&plan.plan.buffers));
        Base { of: plan.stamp(), buffer, index: None, next: false }
    }
}

impl<K, C> DeclareArray<'_, K, C> {
    #[track_caller]
    fn several<T: PlanElement>(
        self,
        name: &str,
        role: Role,
        len: impl LengthOfEach,
    ) -> Buffers<T, K, C> {
        let plan = self.one.plan;
        let index = plan.counter(&format!("{name}_index"));
        let len = len(Number(plan.stamp().push(Expr::Loop(index)))).into();
        let array = Array { count: plan.expr(self.count), index };
        let one = Declare::<K, C> { plan, ..self.one };
        let base = one.declare::<T>(name, role, len, Some(array));
        Buffers { base, index, len, kind: PhantomData }
    }
}
