//! Collectives of a clique: every rank's call, as one group.

use super::{Clique, PerRank};
use crate::backend::{Op, Refusal};
use crate::collectives::Draft;
use crate::communicator::On;
use crate::error::Site;
use crate::group::{Group, Refuse, issue_all};
use crate::memory::SameDtype;
use crate::{AsRank, Buffer, Device, Element, ReduceOp, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

impl<W: World> Clique<W> {
    /// [`Communicator::all_reduce`](crate::Communicator::all_reduce) on every rank.
    ///
    /// # Errors
    /// As there, from whatever rank; a [`PerRank`] of another clique. Nothing is sent then.
    #[track_caller]
    pub fn all_reduce<T: Element, U: Element + SameDtype<T>, M, N>(
        &self,
        send: &PerRank<Buffer<T, W::Device, M>>,
        recv: &mut PerRank<Buffer<U, W::Device, N>>,
        op: impl ReduceOp<T, W> + Copy,
    ) -> Result<()> {
        self.both::<T, U, M, N>(send, recv, Site::caller(), |draft, on, send, recv| {
            let op = op.resolve(&on.core.resources);
            draft.all_reduce(send.all().into_span(), recv.all_mut().into_span(), op)
        })
    }

    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place) on every
    /// rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_reduce_in_place<T: Element, M>(
        &self,
        buf: &mut PerRank<Buffer<T, W::Device, M>>,
        op: impl ReduceOp<T, W> + Copy,
    ) -> Result<()> {
        self.one::<T, M>(buf, Site::caller(), |draft, on, buf| {
            let op = op.resolve(&on.core.resources);
            draft.all_reduce_in_place(buf.all_mut().into_span(), op)
        })
    }

    /// [`Communicator::broadcast_in_place`](crate::Communicator::broadcast_in_place) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn broadcast_in_place<T: Element, M>(
        &self,
        buf: &mut PerRank<Buffer<T, W::Device, M>>,
        root: impl AsRank,
    ) -> Result<()> {
        self.one::<T, M>(buf, Site::caller(), |draft, _, buf| {
            draft.broadcast_in_place(buf.all_mut().into_span(), root)
        })
    }

    /// [`Communicator::all_gather`](crate::Communicator::all_gather) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_gather<T: Element, U: Element + SameDtype<T>, M, N>(
        &self,
        send: &PerRank<Buffer<T, W::Device, M>>,
        recv: &mut PerRank<Buffer<U, W::Device, N>>,
    ) -> Result<()> {
        self.both::<T, U, M, N>(send, recv, Site::caller(), |draft, _, send, recv| {
            draft.all_gather(send.all().into_span(), recv.all_mut().into_span())
        })
    }

    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_scatter<T: Element, U: Element + SameDtype<T>, M, N>(
        &self,
        send: &PerRank<Buffer<T, W::Device, M>>,
        recv: &mut PerRank<Buffer<U, W::Device, N>>,
        op: impl ReduceOp<T, W> + Copy,
    ) -> Result<()> {
        self.both::<T, U, M, N>(send, recv, Site::caller(), |draft, on, send, recv| {
            let op = op.resolve(&on.core.resources);
            draft.reduce_scatter(send.all().into_span(), recv.all_mut().into_span(), op)
        })
    }

    /// [`Communicator::all_to_all`](crate::Communicator::all_to_all) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_to_all<T: Element, U: Element + SameDtype<T>, M, N>(
        &self,
        send: &PerRank<Buffer<T, W::Device, M>>,
        recv: &mut PerRank<Buffer<U, W::Device, N>>,
    ) -> Result<()> {
        self.both::<T, U, M, N>(send, recv, Site::caller(), |draft, _, send, recv| {
            draft.all_to_all(send.all().into_span(), recv.all_mut().into_span())
        })
    }

    fn one<'e, T: Element, M>(
        &'e self,
        buf: &'e mut PerRank<Buffer<T, W::Device, M>>,
        site: Site,
        draft: impl Fn(
            Draft<'e, Back<W>>,
            &On<'e, W>,
            &'e mut Buffer<T, W::Device, M>,
        ) -> Result<Op<'e, Back<W>>>,
    ) -> Result<()> {
        self.same_clique(Some(buf.clique()), site)?;
        let members = self.members.iter().zip(buf.items_mut());
        let groups = members.map(|(member, buf)| {
            let mut group = Group::new(member.here());
            let op = draft(Draft::new(group.on.core, T::DTYPE, site), &group.on, buf);
            group.record(Refusal::Collective, op).map(|()| group.into_part())
        });
        issue_all(groups.collect::<Result<_>>()?, Refuse::EveryRank)
    }

    fn both<'e, T: Element, U: Element, M, N>(
        &'e self,
        send: &'e PerRank<Buffer<T, W::Device, M>>,
        recv: &'e mut PerRank<Buffer<U, W::Device, N>>,
        site: Site,
        draft: impl Fn(
            Draft<'e, Back<W>>,
            &On<'e, W>,
            &'e Buffer<T, W::Device, M>,
            &'e mut Buffer<U, W::Device, N>,
        ) -> Result<Op<'e, Back<W>>>,
    ) -> Result<()> {
        self.same_clique(Some(send.clique()), site)?;
        self.same_clique(Some(recv.clique()), site)?;
        let members = self.members.iter().zip(send.items()).zip(recv.items_mut());
        let groups = members.map(|((member, send), recv)| {
            let mut group = Group::new(member.here());
            let op = draft(Draft::new(group.on.core, T::DTYPE, site), &group.on, send, recv);
            group.record(Refusal::Collective, op).map(|()| group.into_part())
        });
        issue_all(groups.collect::<Result<_>>()?, Refuse::EveryRank)
    }
}
