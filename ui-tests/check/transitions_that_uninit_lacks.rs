//! An `Uninit` communicator is connected, and nothing else.

use std::time::Instant;

use typed_nccl::{
    AbortHandle, Communicator, Host, Invitation, MemoryStats, Recovery, Result, Revoked, Suspended,
    Uninit,
};

fn wait(comm: Communicator<Host, Uninit>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn work(comm: &Communicator<Host, Uninit>) -> Result<()> {
    comm.barrier()
}

fn shrink(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.shrink(&[1])
}

fn invite(comm: &Communicator<Host, Uninit>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host, Uninit>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host, Uninit>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Uninit>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn finish(comm: Communicator<Host, Uninit>) -> Result<()> {
    comm.finish()
}

fn handle(comm: &Communicator<Host, Uninit>) -> AbortHandle {
    comm.abort_handle()
}

fn main() {
    _ = (wait, work, shrink, invite, revoke, recover, suspend, resume, memory, finish, handle);
}
