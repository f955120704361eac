//! The limit of threads for reviews and other blocking handlers (decision 37).

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use super::{Desk, creation, staffed};
use crate::front::{done, is_foreign, on};
use crate::stage::sandboxed;

/// A door that handlers wait for in their threads.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    /// Opens the door when dropped, also if the case fails.
    fn opening(self: Arc<Self>) -> impl Drop {
        struct Opening(Arc<Door>);

        impl Drop for Opening {
            fn drop(&mut self) {
                *self.0.0.lock().unwrap() = true;
                self.0.1.notify_all();
            }
        }

        Opening(self)
    }

    fn pass(&self) {
        let guard = self.0.lock().unwrap();
        drop(self.1.wait_while(guard, |is_open| !*is_open).unwrap());
    }
}

#[test]
fn reviews_and_handlers_share_one_limit() {
    // A foreign front runs blocking functions in threads of its own, which the engine does not limit.
    if is_foreign() {
        return;
    }
    sandboxed(async |stage| {
        let door = Arc::new(Door::default());
        let opening = Arc::clone(&door).opening();
        let (blocked, begun) = (Arc::clone(&door), Arc::new(Notify::new()));
        let entered = Arc::clone(&begun);
        let make = on::create("make").blocks(move |_| {
            entered.notify_one();
            blocked.pass();
            done()
        });
        let is_called = Arc::new(AtomicBool::new(false));
        let called = Arc::clone(&is_called);
        let check = on::validate("check").blocks(move |_| {
            called.store(true, Ordering::SeqCst);
            done()
        });
        let desk = Desk::default();
        let _operator = staffed(stage, &desk, [make, check])
            .settings(|settings| settings.execution.max_workers = Some(1))
            .open(&desk)
            .await;
        stage.create("obj", json!({})).await;
        begun.notified().await;
        let mut asking = pin!(desk.ask(creation(stage, json!({}))));
        // Virtual time stands still while a thread is blocked.
        for _ in 0..100 {
            assert!(
                futures::poll!(&mut asking).is_pending(),
                "the limit is exceeded"
            );
            std::thread::sleep(Duration::from_millis(2));
            tokio::task::yield_now().await;
        }
        assert!(!is_called.load(Ordering::SeqCst));
        drop(opening);
        assert_eq!(asking.await["allowed"], true);
    });
}
