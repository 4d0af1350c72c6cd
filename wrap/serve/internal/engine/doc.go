// Package engine runs a model for many callers at once: requests that wait at the same time are
// run as one batch.
//
//  1. [Engine.Do] checks a request and puts it into the engine's queue, which is bounded in
//     examples and in bytes: a request that does not fit is refused at once, with an [OverloadError].
//  2. The engine asks [Slots] for a slot to run an inference in, or for several if its inferences
//     use several processors. Engines that share Slots queue for them, each with one batch at a time.
//  3. Once it has its slots, it forms a batch: the request that has waited longest, and all after it
//     that can run together with it, up to Config.MaxBatch examples. Their inputs are copied into one
//     tensor each; a request that is alone runs on its own memory.
//  4. The outputs are sliced into the requests' rows, without a copy.
//
// # When a batch begins
//
// Requests collect while an inference runs, and a request that finds a free slot runs at once. That
// alone would be bad for clients that each send a request, wait for the answer and send the next.
// All C of them are answered together; the first that returns would run alone, the C-1 others next,
// and so on: 1, C-1, 1, C-1.
//
// So there is one wait, the batch window. When a batch ends, the engine expects as many requests as
// there are at that moment: those that it answers, and those in the queue. The next batch begins
// when so many are there, or MaxBatch examples, and at the latest when Config.Delay has passed since
// that end, or a quarter of the time that the batch took to run: a wait in vain costs a fifth of the
// throughput at most. After a batch of one request that leaves the queue empty, one is expected: a
// single client never waits. A request of another shape than the batch that ended does not wait, as
// the others could not join it.
//
// If an engine can run several batches at a time, a batch is at most their even share of what is queued and running:
// otherwise one slot would run single requests while another runs all others.
//
// Waits in vain, as with clients that come and go at random, make the engine skip the next wait,
// then 3, 7, 15, and at last 31 of 32. A successful wait halves the number to skip.
//
// # Requests do not harm each other
//
// If a batch of several requests fails, it runs again in halves, and these in halves, until one
// request fails alone: only that one gets the error. One bad request among 64 costs twelve ever
// smaller inferences. Between them, other engines have their turns.
//
// A request whose context ends leaves the queue. An inference whose requests have all left is
// cancelled. A panic in the Runner is an error of its batch, a [PanicError].
package engine
