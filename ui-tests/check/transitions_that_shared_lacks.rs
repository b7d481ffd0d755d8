//! A child that shares its parent's resources works and ends; the rest is its parent's.

use std::time::Instant;

use typed_nccl::{
    Communicator, Host, Invitation, MemoryStats, Recovery, Result, Revoked, SharedChild, Suspended,
};

fn connect(comm: SharedChild<'_, Host>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: SharedChild<'_, Host>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn shrink(comm: SharedChild<'_, Host>) -> Result<Communicator<Host>> {
    comm.shrink(&[1])
}

fn invite(comm: &SharedChild<'_, Host>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: SharedChild<'_, Host>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut SharedChild<'_, Host>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: SharedChild<'_, Host>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: SharedChild<'_, Host>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &SharedChild<'_, Host>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn main() {
    _ = (connect, wait, shrink, invite, revoke, recover, suspend, resume, memory);
}
