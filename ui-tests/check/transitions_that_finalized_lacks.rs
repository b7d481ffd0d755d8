//! What has ended has no transitions.

use std::time::Instant;

use typed_nccl::{
    AbortHandle, Communicator, Finalized, Host, Invitation, MemoryStats, Recovery, Result, Revoked,
    Suspended,
};

fn connect(comm: Communicator<Host, Finalized>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Finalized>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn work(comm: &Communicator<Host, Finalized>) -> Result<()> {
    comm.barrier()
}

fn shrink(comm: Communicator<Host, Finalized>) -> Result<Communicator<Host>> {
    comm.shrink(&[1])
}

fn invite(comm: &Communicator<Host, Finalized>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host, Finalized>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host, Finalized>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host, Finalized>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Finalized>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Finalized>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn finish(comm: Communicator<Host, Finalized>) -> Result<()> {
    comm.finish()
}

fn handle(comm: &Communicator<Host, Finalized>) -> AbortHandle {
    comm.abort_handle()
}

fn main() {
    _ = (connect, wait, work, shrink, invite, revoke, recover, suspend, resume, memory, finish, handle);
}
