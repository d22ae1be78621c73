//! Admission and suspension of queries, and the effects of opening and closing files on both.
//!
//! Load control chooses how many queries may run, and the allocation policy says how many frames they want.
//! This module applies both. Queries that may not run wait in one queue. New queries join it at its end,
//! suspended ones at its front. Only the first may leave.

use crate::action::Action;
use crate::allocation::load_control::Load;
use crate::event::Demand;
use crate::frames::Transfer;
use crate::ids::{FileId, InstanceId, QueryId};
use crate::pool::Pool;
use crate::queries::{Instance, Lacking, Phase, Query};

impl Pool {
    pub(crate) fn start(&mut self, query: QueryId, demand: Demand, actions: &mut Vec<Action>) {
        let new = Query { demand, phase: Phase::New, instances: Vec::new(), pinned: None, request: None };
        let known = self.state.queries.queries.insert(query, new);
        assert!(known.is_none(), "query {query} starts twice");
        self.policy.on_query_started(query, demand);
        self.queue.push_back(query);
        self.activate(actions);
        if self.state.queries.get(query).phase == Phase::New {
            actions.push(Action::Wait { query });
        }
    }

    /// Lets queries run from the front of the queue while load control agrees.
    pub(crate) fn activate(&mut self, actions: &mut Vec<Action>) {
        while let Some(query) = self.queue.front().copied() {
            let load = self.load();
            let alone = load.active == 0;
            if !alone && !self.control.admits(load, self.policy.demand(query)) {
                return;
            }
            self.queue.pop_front();
            let before = self.state.queries.get(query).phase;
            self.state.queries.set_phase(query, Phase::Active);
            actions.push(match before {
                Phase::New => Action::Admit { query },
                _ => Action::Reactivate { query },
            });
            if self.state.queries.get(query).request.is_some() {
                self.serve(query, actions);
            }
        }
    }

    /// True if a query that has just asked for more must stop. A query that is alone never must.
    pub(crate) fn must_stop(&self) -> bool {
        let load = self.load();
        load.active > 1 && self.control.sheds(load)
    }

    /// Stops an active query. The query's frames are released, and a request that it has made waits.
    pub(crate) fn suspend(&mut self, query: QueryId, actions: &mut Vec<Action>) {
        self.unpin(query);
        self.lack(query, Lacking::Turn);
        self.state.queries.set_phase(query, Phase::Suspended);
        actions.push(Action::Deactivate { query });
        self.policy.on_suspended(&self.state, query, &mut self.steps);
        self.apply();
        self.queue.push_front(query);
    }

    pub(crate) fn open(&mut self, instance: Instance, actions: &mut Vec<Action>) {
        self.assert_running(instance.query);
        let known = self.state.queries.instances.insert(instance.id, instance);
        assert!(known.is_none(), "instance {} is opened twice", instance.id);
        self.state.queries.get_mut(instance.query).instances.push(instance.id);
        self.policy.on_file_opened(&instance);
        if self.must_stop() {
            self.suspend(instance.query, actions);
        }
    }

    pub(crate) fn close(&mut self, query: QueryId, id: InstanceId) {
        let instance = *self.state.queries.instance(id);
        assert!(instance.query == query, "instance {id} is not {query}'s");
        self.policy.on_file_closed(&instance, &mut self.steps);
        self.apply();
        self.state.queries.instances.remove(&id);
        self.state.queries.get_mut(query).instances.retain(|open| *open != id);
        self.load_changed = true;
    }

    pub(crate) fn end(&mut self, query: QueryId) {
        self.cancel(query);
        for instance in self.state.queries.get(query).instances.clone() {
            self.close(query, instance);
        }
        self.policy.on_query_ended(query, &mut self.steps);
        self.apply();
        if self.state.queries.get(query).phase == Phase::Active {
            self.state.queries.set_phase(query, Phase::Suspended);
        } else {
            self.queue.retain(|waiting| *waiting != query);
        }
        self.state.queries.queries.remove(&query);
        self.load_changed = true;
        self.room_changed = true;
    }

    /// Removes every use and every request of the query.
    fn cancel(&mut self, query: QueryId) {
        self.unpin(query);
        let Some((_, lacking)) = self.state.queries.get_mut(query).request.take() else { return };
        match lacking {
            Lacking::Frame => self.waiting_for_frame.retain(|waiting| *waiting != query),
            Lacking::Write(frame) => self.state.frames.get_mut(frame).promised_to = None,
            Lacking::Page(frame) => {
                self.state.frames.get_mut(frame).waiters.retain(|waiter| *waiter != query);
            }
            Lacking::Turn => {}
        }
    }

    /// Invalidates the pages of a file. Frames in use, being read or being written become empty afterwards.
    pub(crate) fn drop_file(&mut self, file: FileId) {
        let open = self.state.queries.instances.values().any(|instance| instance.file == file);
        assert!(!open, "file {file} is dropped while it is open");
        for frame in self.state.frames.of_file(file) {
            let f = self.state.frames.get(frame);
            let (idle, pins, page, owner) = (f.transfer == Transfer::Idle, f.pins, f.page, f.owner);
            if let Some(page) = page {
                self.policy.on_evict(frame, page, owner);
                self.state.frames.release(frame);
                self.state.frames.table.remove(&page);
            }
            self.state.frames.set_to_clean(frame, false);
            let f = self.state.frames.get_mut(frame);
            (f.doomed, f.dirty) = (true, false);
            if idle && pins == 0 {
                self.bury(frame);
            }
        }
        self.room_changed = true;
    }

    fn load(&self) -> Load {
        let queries = &self.state.queries;
        Load {
            frames: self.state.frames.count(),
            spare: self.policy.spare_frames(),
            demanded: queries.active().map(|query| u64::from(self.policy.demand(query))).sum(),
            active: queries.active_count(),
        }
    }
}
