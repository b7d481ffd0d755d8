//! Collectives of a clique: every rank's call, as one group. What is not here is recorded lane by lane
//! ([`Clique::group`]).

use super::{Clique, PerRank};
use crate::error::Site;
use crate::group::{Group, Refuse, issue_all};
use crate::memory::SameDtype;
use crate::{AsRank, Readable, ReduceOp, Result, World, Writable};

impl<W: World> Clique<W> {
    /// [`Communicator::all_reduce`](crate::Communicator::all_reduce) on every rank.
    ///
    /// # Errors
    /// As there, from whatever rank; a [`PerRank`] of another clique. Nothing is sent then.
    #[track_caller]
    pub fn all_reduce<A, B>(
        &self,
        send: &PerRank<A>,
        recv: &mut PerRank<B>,
        op: impl ReduceOp<A::Elem, W> + Copy,
    ) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let mut all = self.all(&[send.clique(), recv.clique()], Site::caller())?;
        for ((g, send), recv) in all.iter_mut().zip(send.items()).zip(recv.items_mut()) {
            g.all_reduce(send, recv, op)?;
        }
        issue(all)
    }

    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place) on every
    /// rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut PerRank<B>,
        op: impl ReduceOp<B::Elem, W> + Copy,
    ) -> Result<()> {
        let mut all = self.all(&[buf.clique()], Site::caller())?;
        for (g, buf) in all.iter_mut().zip(buf.items_mut()) {
            g.all_reduce_in_place(buf, op)?;
        }
        issue(all)
    }

    /// [`Communicator::broadcast_in_place`](crate::Communicator::broadcast_in_place) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn broadcast_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut PerRank<B>,
        root: impl AsRank,
    ) -> Result<()> {
        let mut all = self.all(&[buf.clique()], Site::caller())?;
        for (g, buf) in all.iter_mut().zip(buf.items_mut()) {
            g.broadcast_in_place(buf, root)?;
        }
        issue(all)
    }

    /// [`Communicator::reduce_in_place`](crate::Communicator::reduce_in_place) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut PerRank<B>,
        op: impl ReduceOp<B::Elem, W> + Copy,
        root: impl AsRank,
    ) -> Result<()> {
        let mut all = self.all(&[buf.clique()], Site::caller())?;
        for (g, buf) in all.iter_mut().zip(buf.items_mut()) {
            g.reduce_in_place(buf, op, root)?;
        }
        issue(all)
    }

    /// [`Communicator::all_gather`](crate::Communicator::all_gather) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_gather<A, B>(&self, send: &PerRank<A>, recv: &mut PerRank<B>) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let mut all = self.all(&[send.clique(), recv.clique()], Site::caller())?;
        for ((g, send), recv) in all.iter_mut().zip(send.items()).zip(recv.items_mut()) {
            g.all_gather(send, recv)?;
        }
        issue(all)
    }

    /// [`Communicator::all_gather_in_place`](crate::Communicator::all_gather_in_place) on every
    /// rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_gather_in_place<B: Writable<W::Device>>(&self, buf: &mut PerRank<B>) -> Result<()> {
        let mut all = self.all(&[buf.clique()], Site::caller())?;
        for (g, buf) in all.iter_mut().zip(buf.items_mut()) {
            g.all_gather_in_place(buf)?;
        }
        issue(all)
    }

    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_scatter<A, B>(
        &self,
        send: &PerRank<A>,
        recv: &mut PerRank<B>,
        op: impl ReduceOp<A::Elem, W> + Copy,
    ) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let mut all = self.all(&[send.clique(), recv.clique()], Site::caller())?;
        for ((g, send), recv) in all.iter_mut().zip(send.items()).zip(recv.items_mut()) {
            g.reduce_scatter(send, recv, op)?;
        }
        issue(all)
    }

    /// [`Communicator::reduce_scatter_in_place`](crate::Communicator::reduce_scatter_in_place) on
    /// every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_scatter_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut PerRank<B>,
        op: impl ReduceOp<B::Elem, W> + Copy,
    ) -> Result<()> {
        let mut all = self.all(&[buf.clique()], Site::caller())?;
        for (g, buf) in all.iter_mut().zip(buf.items_mut()) {
            g.reduce_scatter_in_place(buf, op)?;
        }
        issue(all)
    }

    /// [`Communicator::all_to_all`](crate::Communicator::all_to_all) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_to_all<A, B>(&self, send: &PerRank<A>, recv: &mut PerRank<B>) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let mut all = self.all(&[send.clique(), recv.clique()], Site::caller())?;
        for ((g, send), recv) in all.iter_mut().zip(send.items()).zip(recv.items_mut()) {
            g.all_to_all(send, recv)?;
        }
        issue(all)
    }

    /// A group for each rank, by rank.
    fn all(&self, cliques: &[u64], site: Site) -> Result<Vec<Group<'_, W>>> {
        cliques.iter().try_for_each(|&clique| self.same_clique(Some(clique), site))?;
        Ok(self.members.iter().map(|member| Group::new(member.here())).collect())
    }
}

fn issue<W: World>(all: Vec<Group<'_, W>>) -> Result<()> {
    let parts: Vec<_> = all.into_iter().map(Group::into_part).collect();
    issue_all(parts, Refuse::EveryRank)
}
