// Package engine runs a model for many callers at once: requests that wait at the same time are
// run as one batch.
//
//  1. [Engine.Do] checks a request and puts it into the engine's queue, which is bounded in
//     examples and in bytes: what does not fit is refused at once, with an [OverloadError].
//  2. The engine asks [Slots] for a place in which inferences run, or for several, where one inference
//     is as much work. Engines that share Slots stand in line, each with one batch at a time.
//  3. With the places comes a batch: the request that has waited longest, and all after it that go
//     together with it, up to Config.MaxBatch examples. Their inputs are copied into one tensor
//     each; a request that is alone is run on its own memory.
//  4. The outputs are cut into the requests' rows, without a copy.
//
// # When a batch begins
//
// Nothing waits without need: while an inference runs, requests gather by themselves, and a request
// that finds a place free is run at once. That alone serves clients badly that each send a request,
// wait for the answer and send the next. All C of them are answered together; the first that is
// back would be run alone, the C-1 others next, and so on: 1, C-1, 1, C-1.
//
// So there is one wait. When a batch ends, as many requests are expected as there are at that
// moment: those that it answers, and those in the queue. The next batch begins when so many are
// there, or MaxBatch examples, and at the latest when Config.Delay has passed since that end, or a
// quarter of the time that the batch took to run: a wait in vain costs a fifth of the throughput at
// most. After a batch of one request that leaves the queue empty, one is expected, and there it is:
// nobody waits where nobody else is. A request of another shape than the batch that ended does not
// wait for what cannot join it.
//
// Where an engine can run several batches at a time, a batch is no more than their even share of what is queued and
// running: or one slot would run single requests while another runs all others.
//
// Waits in vain, as with clients that come and go at random, make the engine leave out the next
// wait, then 3, 7, 15, and at last 31 of 32. One that is rewarded halves what is left out.
//
// # Requests do not harm each other
//
// The error of a batch of several requests is answered to none of them. The batch is run again in
// halves, and these in halves, until one request fails alone: it gets the error, and no other. One
// bad request among 64 costs twelve inferences of less and less. Between them, other engines have
// their turns.
//
// A request whose context ends leaves the queue. An inference whose requests have all left is
// cancelled. A panic in the Runner is an error of its batch, a [PanicError].
package engine
