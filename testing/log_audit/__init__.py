"""The audit of an event log: were all acknowledged messages delivered, in order, and not more often than allowed?"""
