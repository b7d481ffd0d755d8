//! What a plan's module uses of its crate, as far as types go: nothing here runs.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "it stands for a whole crate")]

pub mod error {
    pub type Site = &'static std::panic::Location<'static>;
}

pub mod plan;

use std::marker::PhantomData;

pub type Result<T> = std::result::Result<T, String>;

pub trait Element: Copy + 'static {}
pub trait Numeric: Element {}
pub trait Float: Numeric {}
pub trait Device {}

pub trait World {
    type Device: Device;
}

pub struct Host;

impl Device for Host {}

impl World for Host {
    type Device = Self;
}

impl Element for f32 {}
impl Numeric for f32 {}
impl Float for f32 {}
impl Element for u8 {}

#[allow(non_camel_case_types, reason = "its name")]
#[derive(Clone, Copy)]
pub struct bf16;

impl Element for bf16 {}

macro_rules! memory {
    ($($name:ident<$($life:lifetime,)? $($param:ident),+>),+) => {$(
        pub struct $name<$($life,)? $($param),+>(pub PhantomData<$(&$life)? ($($param,)+)>);
    )+};
}

memory! { Buffer<T, D>, Window<T, W>, Stream<D>, Work<D>, Slice<'a, T, D>, SliceMut<'a, T, D> }

pub trait State {}
pub trait CanEnqueue: State {}
pub struct Ready;

impl State for Ready {}
impl CanEnqueue for Ready {}

pub struct Communicator<W, S = Ready>(pub PhantomData<(W, S)>);
