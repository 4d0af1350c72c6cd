// Package onnxlayers gives access to more of a network than its head: its top dense layers
// ([Find], [Cut]), its Dropout nodes ([Stochastic]), and its nodes that draw random numbers
// ([Random], [Seeded]).
package onnxlayers
