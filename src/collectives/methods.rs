//! The collectives' methods: each on [`Communicator`], on [`On`] and on [`Group`], from one line.
//!
//! Not here are `all_reduce` and `broadcast_in_place`, whose signatures compile errors quote, and
//! `gather` and `reduce`, which allocate the root's buffer.

use super::{Draft, IntoRoot, Root};
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::{CollectiveName, Site};
use crate::group::Group;
use crate::memory::Holds;
use crate::{
    AsRank, Communicator, Rank, RecordRead, RecordWrite, ReduceOp, Result, World, Writable,
};

/// A buffer, or what only the root gives. Where that is written, the parameter is a `Root` itself:
/// then `Root::Here(y)` borrows a `y` that is a reference.
macro_rules! side {
    ([all] $Buffer:ty) => { $Buffer };
    ([root] &mut $Buffer:ty) => { Root<&mut $Buffer> };
    ([root] $Buffer:ty) => { impl IntoRoot<$Buffer> };
}

/// What this rank gives of a side, and the root if that says it.
macro_rules! given {
    ([all] $side:ident, $own:expr) => {
        (Some($side), None)
    };
    ([root] $side:ident, $own:expr) => {{
        let (buffer, root) = $side.into_root().split($own);
        (buffer, Some(root))
    }};
}

/// The last of these, if any.
macro_rules! or_none {
    ($none:expr) => {
        $none
    };
    ($none:expr, $some:expr) => {
        Some($some)
    };
}

macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        fn $name:ident = $a:ident $Name:ident($($shape:tt)+);
    )+) => { $(
        methods! { @ [$Name, stringify!($a), $($shape)+] $(#[$doc])* fn $name }
    )+ };

    (
        @ [$Name:ident, $a:expr, $s:tt send -> $r:tt recv $(, $op:ident)?]
        $(#[$doc:meta])* fn $name:ident
    ) => {
        impl<W: World, S: State> Communicator<W, S> {
            $(#[$doc])*
            #[inline]
            #[track_caller]
            pub fn $name<'a, A, B, E>(
                &self,
                send: side!($s A),
                recv: side!($r &mut B)
                $(, $op: impl ReduceOp<E, W>)?
            ) -> Result<()>
            where
                S: CanEnqueue,
                A: RecordRead<'a, W::Device, Elem = E>,
                B: Writable<W::Device> + Holds<E> + ?Sized,
            {
                self.here().$name(send, recv $(, $op)?)
            }
        }

        impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
            #[doc = concat!("See [`Communicator::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            #[inline]
            #[track_caller]
            pub fn $name<'a, A, B, E>(
                &self,
                send: side!($s A),
                recv: side!($r &mut B)
                $(, $op: impl ReduceOp<E, W>)?
            ) -> Result<()>
            where
                A: RecordRead<'a, W::Device, Elem = E>,
                B: Writable<W::Device> + Holds<E> + ?Sized,
            {
                let (core, site) = (self.core, Site::caller());
                let (send, from): (Option<A>, Option<Rank>) = given!($s send, core.own());
                let (recv, to): (Option<&mut B>, Option<Rank>) = given!($r recv, core.own());
                let send = send.map(A::recorded).map(|send| (send.dtype(), send.span()));
                let recv = recv.as_ref().map(|recv| (recv.dtype(), recv.span()));
                let op = or_none!(None $(, $op.resolve(&core.resources))?);
                let name = CollectiveName::$Name;
                let op = Draft::between(core, site, name, (send, recv), op, from.or(to));
                self.run(Refusal::Collective, op)
            }
        }

        impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
            #[doc = concat!(
                "Records ", $a, " [`", stringify!($name), "`](Communicator::", stringify!($name), ")."
            )]
            ///
            /// # Errors
            /// None here: the group validates when it is complete.
            #[track_caller]
            pub fn $name<A, B, E>(
                &mut self,
                send: side!($s A),
                recv: side!($r B)
                $(, $op: impl ReduceOp<E, W>)?
            ) -> Result<()>
            where
                A: RecordRead<'e, W::Device, Elem = E>,
                B: RecordWrite<'e, W::Device> + Holds<E>,
            {
                let (core, site) = (self.on.core, Site::caller());
                let (send, from): (Option<A>, Option<Rank>) = given!($s send, core.own());
                let (recv, to): (Option<B>, Option<Rank>) = given!($r recv, core.own());
                let send = send.map(A::recorded).map(|send| (send.dtype(), send.span()));
                let recv = recv.map(B::recorded).map(|recv| (recv.dtype(), recv.span()));
                let op = or_none!(None $(, $op.resolve(&core.resources))?);
                let name = CollectiveName::$Name;
                let op = Draft::between(core, site, name, (send, recv), op, from.or(to));
                self.record(Refusal::Collective, op)
            }
        }
    };

    (
        @ [$Name:ident, $a:expr, in one buffer $(, $op:ident: $E:ident)? $(; $root:ident)?]
        $(#[$doc:meta])* fn $name:ident
    ) => {
        impl<W: World, S: State> Communicator<W, S> {
            $(#[$doc])*
            #[inline]
            #[track_caller]
            pub fn $name<B: Writable<W::Device $(, Elem = $E)?> + ?Sized $(, $E)?>(
                &self,
                buf: &mut B
                $(, $op: impl ReduceOp<$E, W>)?
                $(, $root: impl AsRank)?
            ) -> Result<()>
            where
                S: CanEnqueue,
            {
                self.here().$name(buf $(, $op)? $(, $root)?)
            }
        }

        impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
            #[doc = concat!("See [`Communicator::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As there.
            #[inline]
            #[track_caller]
            pub fn $name<B: Writable<W::Device $(, Elem = $E)?> + ?Sized $(, $E)?>(
                &self,
                buf: &mut B
                $(, $op: impl ReduceOp<$E, W>)?
                $(, $root: impl AsRank)?
            ) -> Result<()> {
                let draft = Draft::new(self.core, buf.dtype(), Site::caller());
                let op = or_none!(None $(, $op.resolve(&self.core.resources))?);
                let root = or_none!(None::<Rank> $(, $root)?);
                let op = draft.in_place(CollectiveName::$Name, buf.span(), op, root);
                self.run(Refusal::Collective, op)
            }
        }

        impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
            #[doc = concat!(
                "Records ", $a, " [`", stringify!($name), "`](Communicator::", stringify!($name), ")."
            )]
            ///
            /// # Errors
            /// None here: the group validates when it is complete.
            #[track_caller]
            pub fn $name<B: RecordWrite<'e, W::Device $(, Elem = $E)?> $(, $E)?>(
                &mut self,
                buf: B
                $(, $op: impl ReduceOp<$E, W>)?
                $(, $root: impl AsRank)?
            ) -> Result<()> {
                let buf = buf.recorded();
                let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
                let op = or_none!(None $(, $op.resolve(&self.on.core.resources))?);
                let root = or_none!(None::<Rank> $(, $root)?);
                let op = draft.in_place(CollectiveName::$Name, buf.span(), op, root);
                self.record(Refusal::Collective, op)
            }
        }
    };
}

methods! {
    /// Copies the root's `send` into `recv` on every rank, the root included. Every rank calls it;
    /// all lengths are equal. The host does not wait. NCCL: `ncclBroadcast`, 2.3.
    ///
    /// # Errors
    /// Refusals: lengths that differ, a root that the communicator does not have, a view past its
    /// buffer, memory of another device; a poisoned communicator.
    fn broadcast = a Broadcast([root] send -> [all] recv);

    /// [`reduce`](Self::reduce) into a buffer of the root's own, of the same length.
    ///
    /// # Errors
    /// As there; lengths that differ.
    fn reduce_into = a Reduce([all] send -> [root] recv, op);

    /// Copies every rank's `send` into `recv` on every rank, in rank order. Every rank calls it;
    /// `send` has one length on all ranks, `recv` is `size` times as long. The host does not wait.
    /// NCCL: `ncclAllGather`, 2.3.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    fn all_gather = an AllGather([all] send -> [all] recv);

    /// Reduces the ranks' `send` elementwise and gives block r of the result to rank r. Every rank
    /// calls it; `recv` has one length on all ranks, `send` is `size` times as long. The host does
    /// not wait. NCCL: `ncclReduceScatter`, 2.3.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    fn reduce_scatter = a ReduceScatter([all] send -> [all] recv, op);

    /// Sends block r of `send` to rank r, and receives rank r's block into block r of `recv`. Every
    /// rank calls it; both buffers hold `size` equal blocks. The host does not wait. There is no
    /// form in one buffer. NCCL: `ncclAlltoAll`, 2.28; before, a group of transfers.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    fn all_to_all = an AllToAll([all] send -> [all] recv);

    /// [`gather`](Self::gather) into a buffer of the root's own, `size` times as long as `send`.
    ///
    /// # Errors
    /// As there; a length that does not fit.
    fn gather_into = a Gather([all] send -> [root] recv);

    /// Copies block r of the root's `send` into rank r's `recv`. Every rank calls it; `recv` has
    /// one length on all ranks, the root's `send` is `size` times as long. The host does not wait.
    /// NCCL: `ncclScatter`, 2.28; before, a group of transfers.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a root that the communicator does not have, a view
    /// past its buffer, memory of another device; a poisoned communicator.
    fn scatter = a Scatter([root] send -> [all] recv);

    /// [`reduce`](Self::reduce) in one buffer: read everywhere, overwritten on the root.
    ///
    /// # Errors
    /// As there.
    fn reduce_in_place = a Reduce(in one buffer, op: E; root);

    /// [`all_gather`](Self::all_gather) in one buffer of `size` equal blocks: this rank's block is
    /// read, the others are written.
    ///
    /// # Errors
    /// As there; a length that `size` does not divide.
    fn all_gather_in_place = an AllGather(in one buffer);

    /// [`reduce_scatter`](Self::reduce_scatter) in one buffer of `size` equal blocks: all are read,
    /// this rank's block is overwritten with its result.
    ///
    /// # Errors
    /// As there; a length that `size` does not divide.
    fn reduce_scatter_in_place = a ReduceScatter(in one buffer, op: E);

    /// [`gather`](Self::gather) in one buffer: on the root it holds `size` equal blocks, of which
    /// the root's own is read and the others are written; elsewhere it is the one block that is
    /// sent.
    ///
    /// # Errors
    /// As there; a length on the root that `size` does not divide.
    fn gather_in_place = a Gather(in one buffer; root);

    /// [`scatter`](Self::scatter) in one buffer: on the root it holds `size` equal blocks, which
    /// are read, and the root's own stays where it is; elsewhere it is the one block that is
    /// received.
    ///
    /// # Errors
    /// As there; a length on the root that `size` does not divide.
    fn scatter_in_place = a Scatter(in one buffer; root);
}
