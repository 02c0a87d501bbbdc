//! Models as chains of stages: layers, ResNet, LSTM, summary, weights.
