// Package onnxlayers is for methods that need more of a network than its head: the dense layers at its
// end ([Find], [Cut]), its Dropout nodes ([Stochastic]), and the nodes that draw random numbers
// ([Random], [Seeded]).
package onnxlayers
