//! Service of requests: finding pages, getting frames for them, and writing dirty pages first.
//!
//! The allocation policy chooses the frame; this module applies the choice.

use crate::action::Action;
use crate::event::Access;
use crate::frames::Transfer;
use crate::ids::{FrameNo, QueryId};
use crate::pool::Pool;
use crate::queries::{Lacking, Phase, Reference};

impl Pool {
    /// A running query wants a page and has finished with its previous page.
    pub(crate) fn request(&mut self, query: QueryId, reference: Reference, actions: &mut Vec<Action>) {
        self.assert_running(query);
        self.unpin(query);
        self.state.queries.get_mut(query).request = Some((reference, Lacking::Frame));
        if self.state.frames.find(reference.page).is_none() {
            self.policy.on_fault(&reference, &mut self.steps);
            self.apply();
            if self.must_stop() {
                self.suspend(query, actions);
                return;
            }
        }
        self.serve(query, actions);
    }

    /// Answers the request of an active query as far as possible.
    pub(crate) fn serve(&mut self, query: QueryId, actions: &mut Vec<Action>) {
        let reference = self.reference(query);
        let Some(frame) = self.state.frames.find(reference.page) else {
            let victim = self.policy.choose_victim(&self.state, &reference, &mut self.steps);
            self.apply();
            match victim {
                Some(frame) => self.use_frame(query, frame, actions),
                None => self.wait_for_frame(query),
            }
            return;
        };
        if self.state.frames.get(frame).transfer == Transfer::Reading {
            self.state.frames.get_mut(frame).waiters.push(query);
            self.lack(query, Lacking::Page(frame));
        } else {
            self.grant(query, frame, actions);
        }
    }

    /// Gives a frame to a request: at once if the frame is clean, otherwise after its page is written.
    fn use_frame(&mut self, query: QueryId, frame: FrameNo, actions: &mut Vec<Action>) {
        let f = self.state.frames.get(frame);
        assert!(f.may_leave(), "{frame} was chosen as a victim but may not leave");
        if !f.is_clean() {
            self.write(frame, actions);
            self.state.frames.get_mut(frame).promised_to = Some(query);
            self.lack(query, Lacking::Write(frame));
            return;
        }
        // A clean page is evicted before an older one whose write is delayed. The older one must be written
        // at once. If the device were never idle, such frames would accumulate until there is no other.
        let used = f.used;
        if let Some(older) = self.state.frames.oldest_delayed()
            && self.state.frames.get(older).used < used
        {
            self.write(older, actions);
        }
        self.evict(frame);
        let Reference { page, access, .. } = self.reference(query);
        if access == Access::Create {
            self.state.frames.fill(frame, page, Transfer::Idle);
            self.grant(query, frame, actions);
        } else {
            self.state.frames.fill(frame, page, Transfer::Reading);
            self.state.frames.get_mut(frame).waiters.push(query);
            self.lack(query, Lacking::Page(frame));
            actions.push(Action::Read { frame, page, query });
        }
    }

    fn grant(&mut self, query: QueryId, frame: FrameNo, actions: &mut Vec<Action>) {
        let reference = self.reference(query);
        self.state.frames.touch(frame);
        let f = self.state.frames.get_mut(frame);
        f.pins += 1;
        f.dirty |= reference.access != Access::Read;
        let q = self.state.queries.get_mut(query);
        (q.pinned, q.request) = (Some(frame), None);
        actions.push(Action::Grant { query, page: reference.page, frame });
        self.policy.on_reference(&self.state, frame, &reference, &mut self.steps);
        self.apply();
    }

    pub(crate) fn read_done(&mut self, frame: FrameNo, actions: &mut Vec<Action>) {
        let waiters = self.end_read(frame);
        if waiters.is_empty() {
            // The query that wanted the page has ended, or its file was deleted.
            self.evict(frame);
        }
        for query in waiters {
            self.grant(query, frame, actions);
        }
        self.room_changed = true;
    }

    pub(crate) fn read_failed(&mut self, frame: FrameNo, actions: &mut Vec<Action>) {
        for query in self.end_read(frame) {
            let page = self.reference(query).page;
            self.state.queries.get_mut(query).request = None;
            actions.push(Action::Fail { query, page });
        }
        self.evict(frame);
        self.room_changed = true;
    }

    fn end_read(&mut self, frame: FrameNo) -> Vec<QueryId> {
        let f = self.state.frames.get_mut(frame);
        assert!(f.transfer == Transfer::Reading, "nothing is being read into {frame}");
        f.transfer = Transfer::Idle;
        std::mem::take(&mut f.waiters)
    }

    /// Marks a dirty frame to be written when the device is idle.
    pub(crate) fn clean_later(&mut self, frame: FrameNo) {
        let f = self.state.frames.get(frame);
        if f.dirty && !f.doomed {
            self.state.frames.set_to_clean(frame, true);
        }
    }

    /// The device is idle: writes the next frame.
    pub(crate) fn device_idle(&mut self, actions: &mut Vec<Action>) {
        if let Some(frame) = self.state.frames.oldest_delayed() {
            self.write(frame, actions);
        }
    }

    /// Starts to write a frame's page if it is dirty and not being written. Later changes make it dirty
    /// again.
    fn write(&mut self, frame: FrameNo, actions: &mut Vec<Action>) {
        let f = self.state.frames.get(frame);
        if let Some(page) = f.page
            && f.dirty
            && f.transfer == Transfer::Idle
        {
            self.state.frames.set_to_clean(frame, false);
            let f = self.state.frames.get_mut(frame);
            (f.dirty, f.transfer) = (false, Transfer::Writing);
            actions.push(Action::Write { frame, page });
        }
    }

    pub(crate) fn write_done(&mut self, frame: FrameNo, written: bool, actions: &mut Vec<Action>) {
        let f = self.state.frames.get_mut(frame);
        assert!(f.transfer == Transfer::Writing, "nothing is being written from {frame}");
        f.transfer = Transfer::Idle;
        f.dirty |= !written;
        let (promised_to, owner) = (f.promised_to.take(), f.owner);
        if !written && owner.is_none() {
            self.clean_later(frame);
        }
        self.room_changed = true;
        self.bury(frame);
        let Some(query) = promised_to else { return };
        let f = self.state.frames.get(frame);
        let page = self.reference(query).page;
        if self.state.frames.find(page).is_none() && f.may_leave() && f.is_clean() {
            self.use_frame(query, frame, actions);
        } else {
            // Another request has read the page, or a query uses the frame again.
            self.serve(query, actions);
        }
    }

    /// Makes a frame empty. The frame must be clean and without users.
    pub(crate) fn evict(&mut self, frame: FrameNo) {
        let f = self.state.frames.get(frame);
        if let Some(page) = f.page
            && !f.doomed
        {
            self.policy.on_evict(frame, page, f.owner);
        }
        self.state.frames.clear(frame);
    }

    /// Releases the page that the query was granted.
    pub(crate) fn unpin(&mut self, query: QueryId) {
        if let Some(frame) = self.state.queries.get_mut(query).pinned.take() {
            self.state.frames.get_mut(frame).pins -= 1;
            self.room_changed = true;
            self.bury(frame);
        }
    }

    /// Empties a frame whose page is invalid once no query holds it.
    pub(crate) fn bury(&mut self, frame: FrameNo) {
        let f = self.state.frames.get(frame);
        if f.doomed && f.pins == 0 && f.transfer == Transfer::Idle {
            self.state.frames.clear(frame);
        }
    }

    /// Tries again for all queries that lack a frame, in order.
    pub(crate) fn serve_waiting(&mut self, actions: &mut Vec<Action>) {
        for query in std::mem::take(&mut self.waiting_for_frame) {
            self.serve(query, actions);
        }
    }

    /// True if queries lack frames and no pending work will free one.
    pub(crate) fn is_stuck(&self) -> bool {
        let mut active = self.state.queries.queries.values().filter(|q| q.phase == Phase::Active);
        active.all(|q| matches!(q.request, Some((_, Lacking::Frame))))
            && self.state.frames.frames.iter().all(|f| f.transfer == Transfer::Idle)
    }

    /// The mechanism's last resort: gives the oldest frame, regardless of its owner, to the first query that
    /// lacks one.
    pub(crate) fn force(&mut self, actions: &mut Vec<Action>) -> bool {
        let frames = self.state.frames.iter().filter(|(_, f)| f.may_leave());
        let Some((frame, _)) = frames.min_by_key(|(frame, f)| (!f.is_clean(), f.used, *frame)) else {
            return false;
        };
        let Some(query) = self.waiting_for_frame.pop_front() else { return false };
        self.use_frame(query, frame, actions);
        true
    }

    fn wait_for_frame(&mut self, query: QueryId) {
        self.lack(query, Lacking::Frame);
        self.waiting_for_frame.push_back(query);
    }

    fn reference(&self, query: QueryId) -> Reference {
        let request = self.state.queries.get(query).request;
        request.unwrap_or_else(|| panic!("query {query} waits for nothing")).0
    }

    pub(crate) fn lack(&mut self, query: QueryId, lacking: Lacking) {
        if let Some((_, lacks)) = &mut self.state.queries.get_mut(query).request {
            *lacks = lacking;
        }
    }
}
