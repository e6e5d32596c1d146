//! Work that writes objects and tells the ledger of them. Once begun it goes on to its end, whether or not somebody still waits
//! for it: a request that is dropped between the two would leave an object that nothing names.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Uploads at once. Others wait before they begin, and can be given up there.
const AT_ONCE: usize = 256;

/// What is being uploaded.
#[derive(Debug, Clone)]
pub struct Uploads {
    tracker: TaskTracker,
    slots: Arc<Semaphore>,
    keys: Arc<Mutex<HashSet<Box<str>>>>,
}

impl Default for Uploads {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        Self { tracker: TaskTracker::new(), slots, keys: Arc::default() }
    }
}

impl Uploads {
    /// Does this to its end. Nothing if it fell.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let work = self.tracker.spawn(async move {
            let done = work.await;
            drop(slot);
            done
        });
        work.await.ok()
    }

    /// The object under this key, for one upload at a time.
    pub fn hold(&self, key: &str) -> Option<InHand> {
        let key: Box<str> = key.into();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key.clone()).then(|| InHand { keys: Arc::clone(&self.keys), key })
    }

    /// Returns when everything that was begun is done.
    pub async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// An object that is being uploaded.
#[derive(Debug)]
pub struct InHand {
    keys: Arc<Mutex<HashSet<Box<str>>>>,
    key: Box<str>,
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_was_begun_is_finished_for_nobody() {
        let uploads = Uploads::default();
        let (go, wait) = oneshot::channel::<()>();
        let (done, heard) = oneshot::channel::<bool>();
        let mut request = Box::pin(uploads.run(async move {
            let went = wait.await.is_ok();
            done.send(went).expect("somebody listens");
        }));
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(request);
        go.send(()).expect("it still waits");
        assert_eq!(heard.await, Ok(true));
        uploads.finish().await;
        assert_eq!(uploads.slots.available_permits(), AT_ONCE);
    }

    #[test]
    fn an_object_is_uploaded_once_at_a_time() {
        let uploads = Uploads::default();
        let first = uploads.hold("a").expect("free");
        assert!(uploads.hold("a").is_none() && uploads.hold("b").is_some());
        drop(first);
        assert!(uploads.hold("a").is_some());
    }
}
