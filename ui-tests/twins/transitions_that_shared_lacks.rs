//! The parent, which does not share, has them.

use std::time::Instant;

use typed_nccl::{
    Communicator, Host, Initializing, Invitation, MemoryStats, Recovery, Result, Revoked, Suspended,
    Uninit,
};

fn connect(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Initializing>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn shrink(comm: Communicator<Host>) -> Result<Communicator<Host>> {
    comm.shrink(&[1])
}

fn invite(comm: &Communicator<Host>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Suspended>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Suspended>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn main() {
    _ = (connect, wait, shrink, invite, revoke, recover, suspend, resume, memory);
}
