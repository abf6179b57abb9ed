"""The engine: ``train(net, data, members, keepers, settings)``, one loop for every net of the package."""
