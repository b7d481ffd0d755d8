//! A revoked one is shrunk or aborted.

use std::time::Instant;

use typed_nccl::{
    AbortHandle, Communicator, Host, Invitation, MemoryStats, Recovery, Result, Revoked, Suspended,
};

fn connect(comm: Communicator<Host, Revoked>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Revoked>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn work(comm: &Communicator<Host, Revoked>) -> Result<()> {
    comm.barrier()
}

fn invite(comm: &Communicator<Host, Revoked>) -> Result<Invitation> {
    comm.invite(1)
}

fn revoke(comm: Communicator<Host, Revoked>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn recover(comm: &mut Communicator<Host, Revoked>) -> Result<Recovery> {
    comm.recover()
}

fn suspend(comm: Communicator<Host, Revoked>) -> Result<Communicator<Host, Suspended>> {
    comm.suspend()
}

fn resume(comm: Communicator<Host, Revoked>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn memory(comm: &Communicator<Host, Revoked>) -> Result<MemoryStats> {
    comm.memory_stats()
}

fn finish(comm: Communicator<Host, Revoked>) -> Result<()> {
    comm.finish()
}

fn handle(comm: &Communicator<Host, Revoked>) -> AbortHandle {
    comm.abort_handle()
}

fn main() {
    _ = (connect, wait, work, invite, revoke, recover, suspend, resume, memory, finish, handle);
}
